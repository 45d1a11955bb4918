"""The snippet that web pages send signals with, run by node with stand-ins for the browser."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from collector.signals import parse_signals

SNIPPET = Path(__file__).parents[2] / "dashboards" / "snippets" / "signals.js"
PAGE = Path(__file__).parent / "signals_page.mjs"


def played(scenario: str) -> dict[str, Any]:
    done = subprocess.run(
        ["node", str(PAGE), str(SNIPPET), scenario],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def read(body: Any) -> list[Any]:
    """Read a body that left the page as the agent reads it."""
    parsed = parse_signals(json.dumps(body).encode(), datetime.now(UTC) + timedelta(minutes=1))
    assert parsed.rejected == []
    return parsed.signals


@pytest.mark.node
def test_signals_of_a_moment_go_out_together_without_a_preflight() -> None:
    (post,) = played("gathers")["posts"]
    assert post["url"] == "https://agent.example/v1/signals"
    assert (post["method"], post["keepalive"], post["credentials"]) == ("POST", True, "omit")
    assert "headers" not in post  # a content type of its own would make the browser ask first
    assert [(s.kind, s.message_id) for s in read(post["body"])] == [
        ("thumbs_up", "m1"),
        ("copy", "m2"),
    ]


@pytest.mark.node
@pytest.mark.parametrize("scenario", ["leaves", "hides"])
def test_what_waits_leaves_with_the_page_and_only_once(scenario: str) -> None:
    found = played(scenario)
    (beacon,) = found["beacons"]
    assert [s.kind for s in read(beacon["body"])] == ["thumbs_down"]
    assert found["posts"] == []


@pytest.mark.node
def test_an_agent_that_is_away_or_busy_gets_the_same_signal_later() -> None:
    found = played("waits")
    assert [post["status"] for post in found["posts"]] == [429, 0, 503, 200]
    assert len({post["body"][0]["signal_id"] for post in found["posts"]}) == 1
    assert min(found["waits"][1:]) >= 5000  # after a failure it is patient


@pytest.mark.node
def test_what_is_refused_for_good_is_not_sent_again() -> None:
    assert len(played("gives_up")["posts"]) == 1


@pytest.mark.node
def test_no_more_signals_leave_in_a_minute_than_are_allowed() -> None:
    found = played("floods")
    assert found["result"] == 30
    assert sum(len(post["body"]) for post in found["posts"]) == 30


@pytest.mark.node
def test_ids_of_the_page_are_kept_and_a_users_signals_replace_each_other() -> None:
    (post,) = played("names")["posts"]
    of_user, own = post["body"]
    assert "signal_id" not in of_user
    assert own["signal_id"] == "mine"


def test_the_snippet_depends_on_nothing_and_fits_on_a_page() -> None:
    text = SNIPPET.read_text()
    code = "\n".join(line for line in text.splitlines() if not line.startswith("//"))
    assert len(code.splitlines()) < 80
    for word in ("import ", "require(", "eval(", "innerHTML", "document.cookie", "localStorage"):
        assert word not in code
