"""Texts of users on a terminal and in Markdown: shown as they are read, never obeyed."""

from __future__ import annotations

import asyncio
import io
import json
import unicodedata
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from rich.console import Console

from collector.config import StoreConfig
from collector.doctor import lines
from collector.model import Claim, Document, Judgement, Signal
from collector.plain import plain, plain_json
from collector.telemetry import Metrics
from dashboards import terminal
from dashboards.reports import Reports
from dashboards.review.render import render
from dashboards.windows import Window
from sinks.clickhouse import ClickHouseStore
from tests.fakes.store import AT, stored

WINDOW = Window(AT - timedelta(days=1), AT + timedelta(days=1))

# ECMA-48, OSC 8 of terminals, C1 controls, Unicode TR 36; and what Rich takes for markup.
HOSTILE = [
    "price [/x] of [bold]Pro[/bold]",
    "[link=evil]click[/link]",
    "\x1b[2J\x1b[31mred",
    "\x1b]8;;evil\x1b\\there\x1b]8;;\x1b\\",
    "\x9b31myellow \x9d0;title\x9c",
    "bell \a backspace \b\b\b delete \x7f",
    "refund \u202eevlewt\u202c \u2066isolated\u2069 \u200fmark",
    "line\r\none\u2028two\x85three",
]


def judgement(trace_id: str, text: str) -> Judgement:
    claim = Claim(text=text, verdict="NOT_FOUND", quote=text, document_rank=1, note=text)
    return Judgement(
        trace_id=trace_id,
        scorer="faithfulness",
        fingerprint=HOSTILE[0],
        status="judged",
        score=0.0,
        claims=[claim],
        request_version=1,
        judged_at=AT,
    )


def signal(trace_id: str, text: str) -> Signal:
    return Signal(
        signal_id=trace_id,
        kind="thumbs_down",
        occurred_at=AT,
        received_at=AT,
        trace_id=trace_id,
        sentiment=-1,
        comment=text,
    )


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Return a function that runs a report over one hostile conversation for each text."""
    folder = tmp_path_factory.mktemp("store")
    loop = asyncio.new_event_loop()
    opening = ClickHouseStore.open(f"chdb://{folder}", StoreConfig(), Metrics(CollectorRegistry()))
    store = loop.run_until_complete(opening)

    async def fill() -> None:
        rows = [
            stored(
                f"{number:032x}",
                service=text,
                segment=text,
                conversation_id=text,
                question=text,
                answer=text,
                documents=[Document(rank=1, document_id=text, title=text, text=text, cited=True)],
            )
            for number, text in enumerate(HOSTILE, 1)
        ]
        await store.write_requests(rows)
        for row, text in zip(rows, HOSTILE, strict=True):
            trace_id = row.request.trace_id
            await store.write_judgements([judgement(trace_id, text)], {trace_id: AT})
            await store.write_signals([signal(trace_id, text)])

    loop.run_until_complete(fill())
    reports = Reports(store, HOSTILE[0])
    yield lambda name: loop.run_until_complete(reports.named(name, WINDOW))
    loop.run_until_complete(store.close())
    loop.close()


def on_terminal(print_report: Callable[[Any, Console], None], report: Any) -> str:
    out = io.StringIO()
    print_report(report, Console(file=out, force_terminal=True, color_system=None, width=600))
    return out.getvalue()


def controls(text: str) -> set[str]:
    """Return the characters of a text that a terminal may obey; line feeds are its own."""
    bidirectional = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return {
        c
        for c in text
        if (unicodedata.category(c) in ("Cc", "Cs") and c != "\n")
        or unicodedata.bidirectional(c) in bidirectional
    }


@pytest.mark.parametrize(
    ("name", "print_report"),
    [
        ("estimates", terminal.print_estimates),
        ("signals", terminal.print_signals),
        ("review", lambda found, out: terminal.print_conversations(found["conversations"], out)),
        ("candidates", lambda found, out: terminal.print_candidates(found["candidates"], out)),
        ("doctor", lambda found, out: out.print("\n".join(lines(found)), markup=False)),
        ("review", lambda found, out: out.print(render(found, "md"), markup=False)),
        ("review", lambda found, out: out.print(plain_json(as_json(found)), markup=False)),
    ],
    ids=["estimates", "signals", "conversations", "candidates", "doctor", "Markdown", "JSON"],
)
def test_hostile_texts_are_shown_and_none_is_obeyed(
    shown: Callable[..., Any], name: str, print_report: Callable[[Any, Console], None]
) -> None:
    text = on_terminal(print_report, shown(name))
    assert controls(text) == set()
    for word in ("[/x]", "click", "31mred", "there", "yellow", "backspace", "evlewt", "three"):
        assert word in text.replace("\\", "")


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


@pytest.mark.parametrize("text", [*HOSTILE, "half a pair \ud83d"])
def test_json_says_the_same_without_control_characters(text: str) -> None:
    found = plain_json(as_json({"question": text}))
    assert controls(found) == set()
    assert json.loads(found) == {"question": text}
    assert found.encode()


@pytest.mark.parametrize(
    "text", ["Was kostet Pro, 2 × 10 €?", "שלום, כמה זה עולה?", "👩‍🔧 کتاب‌ها", "[sic] a_b *c*"]
)
def test_what_people_write_is_shown_as_it_is(text: str) -> None:
    assert plain(text) == text
