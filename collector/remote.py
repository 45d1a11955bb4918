"""Commands that speak to an agent: reports through its API, telemetry through its receiver.

While an agent runs, its embedded store belongs to it alone; reports are then asked of its API.
While none runs, the store is opened here.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import msgspec
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from prometheus_client import CollectorRegistry
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
from collector.agent.opening import open_store, reports_of
from collector.config import Resolved
from collector.errors import Conflict, MalformedPayload, TransientDependencyError, UsageError
from collector.gates import GateResult, write_gate
from collector.labels import Accepted
from collector.model_evaluation import EvalRecord
from collector.telemetry import Metrics
from collector.trace_files import bodies
from collector.trace_files.encode import body_of_logs, body_of_spans
from dashboards.candidate_states import CandidateState
from dashboards.review.desk import Desk
from dashboards.review.handover import MOST_LISTED, message_of, written
from dashboards.windows import Window
from sinks.dead_letters import DeadLetter
from sinks.messages import Message

_PATHS = {
    "traces": "/v1/traces",
    "logs": "/v1/logs",
    "otlp_traces": "/v1/traces",
    "otlp_logs": "/v1/logs",
    "signals": "/v1/signals",
}
_PATIENCE_SECONDS = 60
_SHOWN_CHARACTERS = 200
_ROWS_A_CALL = 100


async def report(resolved: Resolved, name: str, window: Window, **parameters: Any) -> Any:
    """Return one report as data, such as `estimates`, `review` or `signals`.

    Args:
        resolved: the configuration of the agent or of its store.
        name: which report.
        window: of the requests it covers.
        parameters: passed on to the report.

    Raises:
        TransientDependencyError: an agent runs but does not answer.
        PermanentDependencyError: the store cannot be opened.
        UsageError: there is neither an agent nor a store.
    """
    if (agent := await _running_agent(resolved.config.data_dir)) is not None:
        return await _asked(agent, name, window, parameters)
    async with reports_of(resolved) as reports:
        return await reports.named(name, window, **parameters)


async def handover(resolved: Resolved, week: str, window: Window) -> Message:
    """Return the hand-over of a week, such as `2026-W48`, as `review.handover` wants it.

    Raises:
        DependencyError, UsageError: as for `report`.
    """
    config = resolved.config.review
    if (agent := await _running_agent(resolved.config.data_dir)) is not None:
        state = await _asked(agent, "week", window, {})
        review = await _asked(agent, "review", window, {"limit": MOST_LISTED})
        return message_of(week, state, review, config.public_url or "", texts=config.handover.texts)
    async with reports_of(resolved) as reports:
        return await written(reports, config, week)


async def send_labels(resolved: Resolved, labels: list[dict[str, Any]]) -> Accepted:
    """Hand labels of people to the agent, or to the store while no agent runs.

    Raises:
        MalformedPayload: one cannot be used; none is stored.
        DependencyError: as for `report`.
    """
    if (agent := await _running_agent(resolved.config.data_dir)) is None:
        async with reports_of(resolved) as reports:
            return await reports.accept_labels(labels, datetime.now(UTC))
    answer = await _handed_over(agent, "labels", json.dumps(labels).encode())
    return Accepted(int(answer["stored"]), int(answer["unlisted"]))


async def reviewed(resolved: Resolved) -> list[CandidateState]:
    """Return the golden candidates that people have touched in the review.

    Raises:
        DependencyError, UsageError: as for `report`.
    """
    if (agent := await _running_agent(resolved.config.data_dir)) is None:
        async with reports_of(resolved) as reports:
            return await Desk(reports, resolved.config.review).reviewed()
    found = await _got(agent, "reviewed", {})
    return msgspec.convert(found["candidates"], list[CandidateState])


async def act(resolved: Resolved, actions: Mapping[str, Mapping[str, Any]]) -> list[CandidateState]:
    """Do something to golden candidates; return where they stand then.

    Args:
        resolved: the configuration of the agent or of its store.
        actions: by the ids of the candidates, see `CandidateAction`.

    Raises:
        MalformedPayload: one cannot be done; those before it are.
        Conflict: the same, since somebody else was faster.
        DependencyError, UsageError: as for `report`.
    """
    if (agent := await _running_agent(resolved.config.data_dir)) is None:
        async with reports_of(resolved) as reports:
            desk = Desk(reports, resolved.config.review)
            now = datetime.now(UTC)
            return [await desk.act(id_, action, now) for id_, action in actions.items()]
    found = [
        await _handed_over(
            agent, f"candidates/{quote(id_, safe='')}/events", json.dumps(action).encode()
        )
        for id_, action in actions.items()
    ]
    return msgspec.convert(found, list[CandidateState])


async def send_evaluation(resolved: Resolved, record: EvalRecord) -> None:
    """Hand a run of the golden set to the agent, or to the store while no agent runs.

    Raises:
        DependencyError: the agent or the store does not take it.
    """
    if (agent := await _running_agent(resolved.config.data_dir)) is None:
        store = await open_store(resolved.config, Metrics(CollectorRegistry()))
        try:
            await store.write_evaluation(record, datetime.now(UTC))
        finally:
            await store.close()
        return
    for start in range(0, len(record.rows), _ROWS_A_CALL):
        rows = record.rows[start : start + _ROWS_A_CALL]
        part = msgspec.structs.replace(record, rows=rows, summary=None)
        await _handed_over(agent, "evaluations", msgspec.json.encode([part]))
    known = msgspec.structs.replace(record, rows=[])
    await _handed_over(agent, "evaluations", msgspec.json.encode([known]))


async def send_gate(resolved: Resolved, result: GateResult) -> None:
    """Hand what the gate said to the agent, or to the store while no agent runs.

    Raises:
        DependencyError: the agent or the store does not take it.
    """
    if (agent := await _running_agent(resolved.config.data_dir)) is None:
        store = await open_store(resolved.config, Metrics(CollectorRegistry()))
        try:
            await write_gate(store, result)
        finally:
            await store.close()
        return
    await _handed_over(agent, "gates", msgspec.json.encode([result]))


class _Running(NamedTuple):
    """An agent that runs: its address, and the token that it lets commands in with."""

    url: str
    token: str

    def client(self) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.AsyncClient(base_url=self.url, timeout=60, trust_env=False, headers=headers)


async def _handed_over(agent: _Running, what: str, body: bytes) -> dict[str, Any]:
    """Post JSON to the agent's API; return its answer."""
    async with agent.client() as client:
        try:
            headers = {"content-type": "application/json"}
            answer = await client.post(f"/api/{what}", content=body, headers=headers)
            found = answer.json()
        except (httpx.HTTPError, ValueError) as err:
            raise TransientDependencyError(
                f"the agent at {agent.url} did not take the {what}"
            ) from err
    if answer.status_code == httpx.codes.BAD_REQUEST:
        raise MalformedPayload(found["error"])
    if answer.status_code == httpx.codes.CONFLICT:
        raise Conflict(found["error"])
    if answer.status_code != httpx.codes.OK:
        raise TransientDependencyError(f"the agent at {agent.url} answered {answer.status_code}")
    return dict(found)


async def _running_agent(data_dir: Path) -> _Running | None:
    """Return the agent of this folder, None where none answers.

    A killed agent leaves its announcement behind, and another may listen at its address by now:
    only one that knows the announced id is believed.
    """
    try:
        announced = json.loads(announcement(data_dir).read_text())
        agent = _Running(str(announced["review"]), str(announced["token"]))
        async with httpx.AsyncClient(base_url=agent.url, timeout=10, trust_env=False) as client:
            health = (await client.get("/healthz")).json()
        return agent if health["agent"] == announced["id"] else None
    except (OSError, ValueError, LookupError, TypeError, httpx.HTTPError, httpx.InvalidURL):
        return None


async def _asked(agent: _Running, name: str, window: Window, parameters: dict[str, Any]) -> Any:
    asked = {"since": window.since.isoformat(), "until": window.until.isoformat()}
    return await _got(agent, name, asked | parameters)


async def _got(agent: _Running, name: str, parameters: dict[str, Any]) -> Any:
    try:
        async with agent.client() as client:
            answer = await client.get(f"/api/{name}", params=parameters)
        found = answer.json()
    except httpx.HTTPError as err:
        reason = str(err) or type(err).__name__
        raise TransientDependencyError(
            f"the agent at {agent.url} did not answer: {reason}"
        ) from err
    except ValueError as err:
        raise TransientDependencyError(
            f"the agent at {agent.url} answered {answer.status_code} without a report in it"
        ) from err
    if answer.status_code != httpx.codes.OK or not isinstance(found, dict):
        said = found.get("error") if isinstance(found, dict) else None
        if answer.status_code == httpx.codes.BAD_REQUEST and said:
            raise UsageError([str(said)])
        raise TransientDependencyError(
            f"the agent at {agent.url} answered {answer.status_code}: {said or 'no report'}"
        )
    return found


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
    token: SecretStr | None = None,
) -> dict[str, Any]:
    """Send dead letters to an agent once more. Takes `endpoint`, `console`, `token` as above.

    Returns:
        The ids of the letters that were taken, and one sentence for each that was not.

    Raises:
        UsageError: the endpoint is no address.
        TransientDependencyError: no agent took data in time.
    """
    check_address("--endpoint", endpoint)
    headers = {"authorization": f"Bearer {token.get_secret_value()}"} if token else {}
    taken: list[str] = []
    problems: list[str] = []
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
    return {"taken": taken, "problems": problems}


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
