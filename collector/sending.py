"""Commands that send telemetry to an agent through its receiver, and wait while it says so."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import httpx
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from pydantic import SecretStr
from rich.console import Console
from rich.progress import Progress
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_delay,
    wait_random,
)

from collector import otlp
from collector.agent.listening import announcement
from collector.errors import MalformedPayload, TransientDependencyError, UsageError
from collector.trace_files import bodies
from collector.trace_files.encode import body_of_logs, body_of_spans
from sinks.dead_letters import DeadLetter

_PATHS = {
    "traces": "/v1/traces",
    "logs": "/v1/logs",
    "otlp_traces": "/v1/traces",
    "otlp_logs": "/v1/logs",
    "signals": "/v1/signals",
}
_PATIENCE_SECONDS = 60
_FORGET_SECONDS = 1.0
_SHOWN_CHARACTERS = 200


async def send_files(
    files: list[Path], endpoint: str, console: Console, token: SecretStr | None = None
) -> dict[str, Any]:
    """Send every body of the files, waiting and trying again while the agent says so.

    Args:
        files: files of traces or logs.
        endpoint: OTLP/HTTP address of the agent.
        console: where it tells that it waits, and for what.
        token: the agent's ingest token, if it wants one.

    Returns:
        Counts, and one sentence for each file or body that could not be sent.

    Raises:
        UsageError: the endpoint is no address.
        TransientDependencyError: no agent took data in time.
    """
    check_address("--endpoint", endpoint)
    headers = {"authorization": f"Bearer {token.get_secret_value()}"} if token else {}
    sent, problems = 0, []
    async with httpx.AsyncClient(
        base_url=endpoint, timeout=60, trust_env=False, headers=headers
    ) as client:
        with Progress(console=console, disable=not sys.stderr.isatty()) as progress:
            for path in progress.track(files, description="sending"):
                try:
                    found = await asyncio.to_thread(bodies, path)
                except MalformedPayload as err:
                    problems.append(str(err))  # names the file
                    continue
                for kind, body in found:
                    answer = await _post(client, _PATHS[kind], body, console)
                    if answer.status_code == httpx.codes.OK:
                        sent += 1
                    else:
                        problems.append(f"{path}: {_refusal(answer)}")
    return {"files": len(files), "sent": sent, "problems": problems}


async def send_letters(
    letters: Iterable[DeadLetter],
    endpoint: str,
    console: Console,
    forget: Callable[[Collection[str]], None],
    token: SecretStr | None = None,
) -> dict[str, Any]:
    """Send dead letters to an agent once more. Takes `endpoint`, `console`, `token` as above.

    Those it takes are forgotten soon, not in the end: it may be long until then, something may
    break off, and one that fails again meanwhile may be set aside under the same id.

    `forget` takes letters away by their ids; it is called in a thread.

    Returns:
        The ids of the letters that were taken, and one sentence for each that was not.

    Raises:
        UsageError: the endpoint is no address.
        TransientDependencyError: no agent took data in time.
    """
    check_address("--endpoint", endpoint)
    taken: list[str] = []
    problems: list[str] = []
    sending = asyncio.create_task(_send_each(letters, endpoint, console, token, taken, problems))
    forgotten = 0
    while forgotten < len(taken) or not sending.done():
        await asyncio.wait([sending], timeout=_FORGET_SECONDS)
        if fresh := taken[forgotten:]:
            await asyncio.to_thread(forget, set(fresh))
            forgotten += len(fresh)
    await sending
    return {"taken": taken, "problems": problems}


async def _send_each(
    letters: Iterable[DeadLetter],
    endpoint: str,
    console: Console,
    token: SecretStr | None,
    taken: list[str],
    problems: list[str],
) -> None:
    """Send letter by letter; note the ids of those taken, and a sentence for each that was not."""
    headers = {"authorization": f"Bearer {token.get_secret_value()}"} if token else {}
    async with httpx.AsyncClient(
        base_url=endpoint, timeout=60, trust_env=False, headers=headers
    ) as client:
        for letter in letters:
            try:
                parts = _bodies_of(letter)
            except MalformedPayload as err:
                problems.append(f"{letter.letter_id}: {err}")
                continue
            answers = [await _post(client, _PATHS[kind], body, console) for kind, body in parts]
            refused = [answer for answer in answers if answer.status_code != httpx.codes.OK]
            if refused:
                problems.append(f"{letter.letter_id}: {_refusal(refused[0])}")
            else:
                taken.append(letter.letter_id)


def _bodies_of(letter: DeadLetter) -> list[tuple[str, bytes]]:
    """Return what a dead letter held as bodies to post, with their kinds.

    Raises:
        MalformedPayload: there is nothing that could be sent.
    """
    record = letter.record
    if letter.body_lost:
        raise MalformedPayload("what it held was not kept")
    if record.kind == "trace":
        trace = otlp.decode_trace(record.body)
        parts = [("otlp_traces", body_of_spans(trace.spans))] if trace.spans else []
        return parts + ([("otlp_logs", body_of_logs(trace.logs))] if trace.logs else [])
    if record.kind not in _PATHS:
        raise MalformedPayload(f"a {record.kind} cannot be sent; it is made anew where it is due")
    return [(record.kind, record.body)]


def announced_receiver(data_dir: Path) -> str | None:
    """Return the OTLP/HTTP address that the agent of this folder has announced, if it has."""
    try:
        return str(json.loads(announcement(data_dir).read_text())["otlp_http"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def check_address(option: str, address: str) -> None:
    """Raise UsageError where the address given to an option is none."""
    try:
        url = httpx.URL(address)
        usable = url.scheme in ("http", "https") and bool(url.host)
    except httpx.InvalidURL:
        usable = False
    if not usable:
        raise UsageError([f"{option}: {address!r} must be such as http://127.0.0.1:4318"])


def _refusal(answer: httpx.Response) -> str:
    """Say in one line how an agent, or whatever listens there, refused."""
    said = answer.text
    if "protobuf" in answer.headers.get("content-type", ""):
        try:
            said = Status.FromString(answer.content).message
        except DecodeError:
            said = ""
    words = " ".join("".join(c if c.isprintable() else " " for c in said).split())
    return f"refused with {answer.status_code}: {words[:_SHOWN_CHARACTERS] or answer.reason_phrase}"


class _TryAgain(Exception):
    """The agent asked to wait."""


async def _post(
    client: httpx.AsyncClient, path: str, body: bytes, console: Console
) -> httpx.Response:
    def tell(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if state.attempt_number == 1:
            console.print(
                f"waiting up to {_PATIENCE_SECONDS} s for {client.base_url}: {_reason(error)}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )

    retrying = AsyncRetrying(
        retry=retry_if_exception_type((_TryAgain, httpx.TransportError)),
        wait=wait_random(0.2, 1.0),
        stop=stop_after_delay(_PATIENCE_SECONDS),
        before_sleep=tell,
        reraise=True,
    )
    try:
        return await retrying(_post_once, client, path, body)
    except (_TryAgain, httpx.TransportError) as err:
        raise TransientDependencyError(
            f"no agent takes data at {client.base_url} ({_reason(err)}); "
            "is it running, and is that its address?"
        ) from err


def _reason(error: BaseException | None) -> str:
    return str(error) or type(error).__name__


async def _post_once(client: httpx.AsyncClient, path: str, body: bytes) -> httpx.Response:
    headers = {"content-type": "application/x-protobuf"}
    answer = await client.post(path, content=body, headers=headers)
    if answer.status_code in {429, 502, 503, 504}:
        raise _TryAgain(_refusal(answer))
    return answer
