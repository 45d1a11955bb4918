"""Commands that speak to an agent through its API: they ask for reports, and hand over work.

While an agent runs, its embedded store belongs to it alone; reports are then asked of its API.
While none runs, the store is opened here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import msgspec
from prometheus_client import CollectorRegistry

from collector.agent.listening import announcement
from collector.agent.opening import open_store, reports_of
from collector.config import Resolved
from collector.errors import Conflict, MalformedPayload, TransientDependencyError, UsageError
from collector.gates import GateResult, write_gate
from collector.labels import Accepted
from collector.model_evaluation import EvalRecord
from collector.telemetry import Metrics
from dashboards.candidate_states import CandidateState
from dashboards.review.desk import Desk
from dashboards.review.handover import MOST_LISTED, message_of, written
from dashboards.windows import Window
from sinks.messages import Message

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
