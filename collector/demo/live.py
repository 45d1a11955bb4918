"""`groundwatch demo`: a real agent and the small assistant it watches, in one process."""

from __future__ import annotations

import asyncio
import logging
import shlex
import socket
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rich.console import Console

from collector.agent.running import Agent, running
from collector.config import AlertsConfig, AssemblerConfig, Config, ListenConfig, Resolved, Secrets
from collector.demo import incident as bad_release
from collector.demo.assistant import Assistant
from collector.demo.instrumentation import VERSION
from collector.demo.summary import planted_in_review
from collector.demo.traffic import Scenario, play, scenario, steady
from collector.errors import PermanentDependencyError
from dashboards import terminal
from dashboards.candidates import candidate_of
from dashboards.windows import Window

_LOOK_SECONDS = 0.5
_SETTLE_SECONDS = 60.0
_LINE_SECONDS = 5.0
_REVIEW_ROWS = 40
_ALL_ROWS = 500
_ANY = "127.0.0.1:0"
_T = TypeVar("_T")


async def run_demo(
    data_dir: Path,
    *,
    once: bool,
    console: Console,
    stop: asyncio.Event,
    incident: bool = False,
    command: str = "groundwatch",
) -> dict[str, Any] | None:
    """Run the demo until all is judged (`once`) or `stop` is set.

    Returns its summary, None when it was stopped before there was one.

    Args:
        data_dir: where the demo keeps its data; a second run finds it again.
        once: stop when everything that was sent is judged.
        console: where it tells what it sees.
        stop: ends the demo early and cleanly.
        incident: break one segment after all was well, so that its page fires.
        command: what to type to call groundwatch.
    """
    # The library sets its own logger to DEBUG when it is imported.
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    started = datetime.now(UTC)
    run_id = f"{started:%Y%m%d-%H%M%S}"
    story = scenario(run_id=run_id)
    async with AsyncExitStack() as stack:
        agent = await _start(stack, data_dir)
        before = await _seen(agent, started)
        await _greet(agent, story, started, console)
        played = asyncio.create_task(
            play(story, otlp_url=agent.urls.otlp_http, stop=stop, turns_per_second=60)
        )
        await _watch(agent, played, started, before.requests, console, stop)
        console.print("\nreading the worst conversations ...")
        summary = await _unless(stop, _summary(agent, story, started, run_id, before))
        if summary is None:
            return None
        _show(summary, agent, console)
        _tell_how_to_read(command, data_dir, console)
        broken = None
        if incident:
            broken = await _break(agent, run_id, console, stop)
            look = f"review report --since 6h --segment {bad_release.SEGMENT}"
            _tell_command(command, look, data_dir, console)
        if not once:
            await _go_on(agent, console, stop, broken)
        return summary


async def _break(agent: Agent, run_id: str, console: Console, stop: asyncio.Event) -> Assistant:
    """Release an assistant that has lost the pages of one segment, and tell what to look at."""
    console.print(
        f"\n[bold]Release {bad_release.VERSION}[/]: the index has lost the pages of the segment"
        f" {bad_release.SEGMENT}; the assistant answers all the same."
    )
    assistant = await bad_release.released()
    before = (await agent.reports.estimates(_since(datetime.now(UTC))))["total"]["requests"]
    asked = await bad_release.hurried(
        assistant, otlp_url=agent.urls.otlp_http, run_id=f"{run_id}-incident", stop=stop
    )
    await _unless(stop, _judged(agent, before + asked))
    console.print(
        f"{asked} more questions were asked. With the rules of groundwatch, Prometheus fires"
        " GroundwatchFaithfulnessLow\nfor this segment within a minute or two; the runbook's first"
        " look is:"
    )
    return assistant


async def _judged(agent: Agent, requests: int) -> None:
    """Return once so many requests of the last minutes are judged, or have had the time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_SETTLE_SECONDS):
            while True:
                total = (await agent.reports.estimates(_since(datetime.now(UTC))))["total"]
                if total["requests"] >= requests and not total["waiting"]:
                    return
                await asyncio.sleep(_LOOK_SECONDS)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, _T]) -> _T | None:
    """Return what `work` returns, or None as soon as `stop` is set."""
    tasks = (asyncio.create_task(work), asyncio.create_task(stop.wait()))
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    return tasks[0].result() if tasks[0] in done and not stop.is_set() else None


async def _start(stack: AsyncExitStack, data_dir: Path) -> Agent:
    """Start on the default ports where they are free, so that the README's addresses hold."""
    usual = ListenConfig().model_dump()
    free = {name: address if _is_free(address) else _ANY for name, address in usual.items()}
    try:
        return await _listening(stack, data_dir, free)
    except PermanentDependencyError:  # somebody took one of them meanwhile
        return await _listening(stack, data_dir, dict.fromkeys(usual, _ANY))


async def _listening(stack: AsyncExitStack, data_dir: Path, listen: dict[str, str]) -> Agent:
    resolved = Resolved(config=_config(data_dir, listen), secrets=Secrets())
    return await stack.enter_async_context(running(resolved))


def _config(data_dir: Path, listen: dict[str, str]) -> Config:
    return Config(
        data_dir=data_dir,
        listen=ListenConfig(**listen),
        assembler=AssemblerConfig(quiet_seconds=0.5),
        # What is planted keeps the look-ups low at all times: that is no drop.
        alerts=AlertsConfig(settle_seconds=5, segments={"lookup": 0.7}),
    )


def _is_free(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe, suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, int(port)))
        return True
    return False


async def _greet(agent: Agent, story: Scenario, started: datetime, console: Console) -> None:
    console.print("[bold]groundwatch demo[/]: an assistant for an invented product is watched.")
    for name, url in agent.urls._asdict().items():
        console.print(f"  {name:10} {url}", highlight=False)
    before = await agent.reports.estimates(Window(datetime(2000, 1, 1, tzinfo=UTC), started))
    if found := before["total"]["requests"]:
        console.print(f"  found {found} requests from an earlier run")
    console.print(f"  {len(story.planted)} failures are planted among the conversations\n")


async def _watch(
    agent: Agent,
    played: asyncio.Task[Any],
    started: datetime,
    before: int,
    console: Console,
    stop: asyncio.Event,
) -> None:
    """Tell what the agent sees until all that was sent is judged."""
    loop = asyncio.get_running_loop()
    give_up_at: float | None = None
    shown = ""
    while not stop.is_set() and not agent.failed.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _LOOK_SECONDS)
        report = await agent.reports.estimates(_since(started))
        line = _line(report)
        if line != shown:
            console.print(line, highlight=False)
            shown = line
        if not played.done():
            continue
        total = report["total"]
        if total["requests"] >= before + played.result().requests and total["waiting"] == 0:
            return
        give_up_at = give_up_at or loop.time() + _SETTLE_SECONDS
        if loop.time() > give_up_at:
            console.print("[red]not everything that was sent was judged in time[/]")
            return
    await asyncio.gather(played, return_exceptions=True)


class _Seen(NamedTuple):
    """What a window holds; an earlier run may have ended only a moment ago."""

    requests: int
    judged: int
    failed: dict[str, int]
    signals: int


async def _seen(agent: Agent, started: datetime) -> _Seen:
    total = (await agent.reports.estimates(_since(started)))["total"]
    said = (await agent.reports.signals(_since(started)))["total"]["kinds"]
    signals = sum(kind["signals"] for kind in said if not kind["inferred"])
    return _Seen(total["requests"], total["judged"], total["failed"], signals)


def _since(started: datetime) -> Window:
    return Window(started - timedelta(minutes=5), datetime.now(UTC) + timedelta(minutes=5))


def _line(report: dict[str, Any]) -> str:
    total = report["total"]
    time = datetime.now(UTC).astimezone()
    return (
        f"{time:%H:%M:%S}  {total['requests']:4} requests, {total['judged']:4} judged, "
        f"{total['waiting']:3} waiting   {terminal.point(total):11}  {terminal.interval(total)}"
    )


async def _summary(
    agent: Agent, story: Scenario, started: datetime, run_id: str, before: _Seen
) -> dict[str, Any]:
    """Sum up this run; conversations of an earlier one are told apart by their id."""
    window = _since(started)
    report = await agent.reports.estimates(window)
    review = await agent.reports.review(window, limit=_ALL_ROWS)
    ours = [c for c in review["conversations"] if c["conversation_id"].startswith(run_id)]
    review["conversations"] = ours[:_REVIEW_ROWS]
    drafts = [candidate_of(c, agent.reports.fingerprint) for c in ours]
    candidates = [draft for draft in drafts if draft is not None]
    seen = await _seen(agent, started)
    total = report["total"]
    failed = {
        reason: count - before.failed.get(reason, 0)
        for reason, count in seen.failed.items()
        if count > before.failed.get(reason, 0)
    }
    return {
        "requests": seen.requests - before.requests,
        "judged": seen.judged - before.judged,
        "failed": failed,
        "signals": seen.signals - before.signals,
        "candidates": len(candidates),
        "accounting_ok": report["accounting_ok"],
        "estimate": {key: total[key] for key in ("estimate", "low", "high", "n_eff", "method")},
        "judge": report["judge"],
        "planted": planted_in_review(story.planted, review["conversations"]),
        "review_rows": _REVIEW_ROWS,
        "urls": agent.urls._asdict(),
        "report": report,
        "worst": review["conversations"][:8],
    }


def _show(summary: dict[str, Any], agent: Agent, console: Console) -> None:
    console.print()
    terminal.print_estimates(summary.pop("report"), console)
    console.print("\n[bold]Worst conversations[/]")
    terminal.print_conversations(summary.pop("worst"), console)
    found = summary["planted"].values()
    console.print(
        f"\n{sum(k['in_top'] for k in found)} of {sum(k['planted'] for k in found)} planted "
        f"failures stand among the {_REVIEW_ROWS} worst; {summary['candidates']} golden candidates."
    )
    console.print(f"Review page: {agent.urls.review}   Metrics: {agent.urls.metrics}")


def _tell_how_to_read(command: str, data_dir: Path, console: Console) -> None:
    console.print("Its data can be read while it runs and afterwards:")
    for report in ("estimates", "review report", "golden candidates"):
        _tell_command(command, report, data_dir, console)


def _tell_command(command: str, words: str, data_dir: Path, console: Console) -> None:
    line = f"  {command} {words} --data-dir {shlex.quote(str(data_dir))}"
    console.print(line, highlight=False, markup=False, soft_wrap=True)


async def _go_on(
    agent: Agent, console: Console, stop: asyncio.Event, broken: Assistant | None
) -> None:
    """Keep slow traffic coming until told to stop."""
    console.print("\nTraffic goes on. Ctrl-C ends the demo; its data stays.\n")
    started = datetime.now(UTC)
    version = bad_release.VERSION if broken else VERSION
    traffic = asyncio.create_task(
        steady(otlp_url=agent.urls.otlp_http, stop=stop, assistant=broken, version=version)
    )
    while not stop.is_set() and not agent.failed.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _LINE_SECONDS)
        console.print(_line(await agent.reports.estimates(_since(started))), highlight=False)
    await asyncio.gather(traffic, return_exceptions=True)
