"""What users wrote, and who they are, is nowhere once it is processed, if it may not be kept."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from collector.trace_files.encode import body_of_spans
from sinks.connection import connect
from tests.fakes.openai_server import OpenAIServer
from tests.fakes.requests import chain, llm
from tests.fakes.spans import span
from tests.processes import AgentProcess

WORD = "Zyxwanary"
EMAIL = "zyxwanary@example.com"
SECONDS = 20.0


def conversation(secret: str) -> list[bytes]:
    """Return two turns as OTLP bodies, the second asking the same again, the secret everywhere."""
    asked = f"How do I cancel the plan of {secret}?"
    answered = f"The plan of {secret} is cancelled by mail. {secret} pays 90 euros for it."
    page = {
        "openinference.span.kind": "RETRIEVER",
        "input.value": asked,
        "retrieval.documents.0.document.id": "p1",
        "retrieval.documents.0.document.content": f"The plan of {secret} is cancelled by mail.",
        "retrieval.documents.0.document.metadata": f'{{"title": "About {secret}"}}',
    }
    who = {"session.id": "talk-1", "user.id": secret}
    start = time.time_ns() - 60_000_000_000
    bodies = []
    for turn in range(2):
        spans = [
            span(0, chain(asked, answered, **who)),
            span(1, page, parent=0),
            span(2, llm(asked, answered), parent=0),
        ]
        at = start + turn * 20_000_000_000
        moved = [
            msgspec.structs.replace(
                one,
                trace_id=f"{turn + 1:032x}",
                start_ns=at + number * 1_000_000,
                end_ns=at + 1_000_000_000,
            )
            for number, one in enumerate(spans)
        ]
        bodies.append(body_of_spans(moved))
    return bodies


def signals(secret: str) -> list[dict[str, Any]]:
    about = {"trace_id": f"{1:032x}", "user_id": secret}
    return [
        {**about, "kind": "thumbs_down", "comment": f"{secret} was never told"},
        {**about, "kind": "comment", "comment": f"ask {secret}"},
        {**about, "kind": "rating", "value": 1, "scale": "1..5"},
    ]


@contextmanager
def done(folder: Path, content: str, secret: str) -> Iterator[AgentProcess]:
    """Let an agent take in and judge everything; it still runs, and nothing waits in it."""
    with OpenAIServer() as server:
        openai = {"base_url": server.base_url, "model": "m", "api_key_env": "KEY"}
        config = {
            "store": {"content": content},
            "assembler": {"quiet_seconds": 0.2},
            "judge": {"engine": "openai", "openai": openai},
            "log_level": "debug",
        }
        with AgentProcess(folder, config, {"KEY": "none"}) as agent:
            url = agent.urls["otlp_http"]
            with httpx.Client(base_url=url, trust_env=False) as client:
                client.post("/v1/signals", json=signals(secret)).raise_for_status()
                for body in conversation(secret):
                    client.post("/v1/traces", content=body).raise_for_status()
                # What is refused must not be quoted anywhere either.
                client.post("/v1/signals", json={secret: secret, "kind": secret})
                client.post("/v1/traces", content=secret.encode())
            until(lambda: agent.totals()["judged"] == 2)
            until(lambda: told(agent) >= 3)
            yield agent


def told(agent: AgentProcess) -> int:
    kinds = agent.report("signals")["total"]["kinds"]
    return sum(kind["signals"] for kind in kinds)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def holding(folder: Path, secret: str) -> list[str]:
    """Return the files that hold a secret, as it is or in base64 at any offset."""
    shapes = [secret.encode()]
    for offset in range(3):
        coded = base64.b64encode(b"\0" * offset + secret.encode())
        shapes.append(coded[4 if offset else 0 : -4])
    return sorted(
        path.name
        for path in folder.rglob("*")
        if path.is_file() and any(shape in path.read_bytes() for shape in shapes)
    )


def rows(data_dir: Path) -> bytes:
    """Return all that is stored, read back: on disk it is compressed."""
    client = connect(f"chdb://{data_dir / 'clickhouse'}", {})
    try:
        tables = [row[0] for row in client.query("SHOW TABLES").result_rows]
        read = [client.raw_query(f"SELECT * FROM {table} FORMAT JSONEachRow") for table in tables]
    finally:
        client.close()
    return b"".join(read)


@pytest.mark.parametrize(("content", "secret"), [("none", WORD), ("redacted", EMAIL)])
def test_what_may_not_be_kept_is_in_no_file_and_no_log(
    tmp_path: Path, content: str, secret: str
) -> None:
    with done(tmp_path, content, secret) as agent:
        until(lambda: holding(agent.data_dir, secret) == [])
    found = rows(agent.data_dir)

    assert holding(tmp_path, secret) == []
    assert secret.encode() not in found
    assert found.count(b'"CONTRADICTED"') + found.count(b'"NOT_FOUND"') >= 2  # verdicts are kept
    assert b"thumbs_down" in found
    assert (b"[email]" in found) == (content == "redacted")


def test_what_may_be_kept_is_found_by_the_same_look(tmp_path: Path) -> None:
    with done(tmp_path, "full", WORD) as agent:
        held = holding(agent.data_dir, WORD)
    assert rows(agent.data_dir).count(WORD.encode()) > 10
    assert "journal.sqlite-wal" in held
