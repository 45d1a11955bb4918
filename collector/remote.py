"""Commands that speak to an agent: reports through its API, telemetry through its receiver.

While an agent runs, its embedded store belongs to it alone; reports are then asked of its API.
While none runs, the store is opened here.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.progress import Progress
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random

from collector.app import announcement, reports_of
from collector.config import Resolved
from collector.errors import MalformedPayload, TransientDependencyError
from collector.trace_files import bodies
from dashboards.windows import Window

_PATHS = {"traces": "/v1/traces", "logs": "/v1/logs"}
_PATIENCE_SECONDS = 60


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
    """
    if (url := _running_agent(resolved.config.data_dir)) is not None:
        asked = {"since": window.since.isoformat(), "until": window.until.isoformat()}
        try:
            async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
                answer = await client.get(f"/api/{name}", params=asked | parameters)
                answer.raise_for_status()
                return answer.json()
        except httpx.ConnectError:
            pass  # the agent was killed and left its announcement behind
        except httpx.HTTPError as err:
            raise TransientDependencyError(f"the agent at {url} did not answer: {err}") from err
    async with reports_of(resolved) as reports:
        return await reports.named(name, window, **parameters)


def _running_agent(data_dir: Path) -> str | None:
    try:
        return str(json.loads(announcement(data_dir).read_text())["review"])
    except (OSError, ValueError, KeyError):
        return None


async def send_files(files: list[Path], endpoint: str, console: Console) -> dict[str, Any]:
    """Send every body of the files, waiting and trying again while the agent says so.

    Returns:
        Counts, and one sentence for each file or body that could not be sent.
    """
    sent, problems = 0, []
    async with httpx.AsyncClient(base_url=endpoint, timeout=60, trust_env=False) as client:
        with Progress(console=console, disable=not sys.stderr.isatty()) as progress:
            for path in progress.track(files, description="sending"):
                try:
                    found = await asyncio.to_thread(bodies, path)
                except MalformedPayload as err:
                    problems.append(str(err))  # names the file
                    continue
                for kind, body in found:
                    answer = await _post(client, _PATHS[kind], body)
                    if answer.status_code == httpx.codes.OK:
                        sent += 1
                    else:
                        problems.append(f"{path}: refused with {answer.status_code}")
    return {"files": len(files), "sent": sent, "problems": problems}


class _TryAgain(Exception):
    """The agent asked to wait."""


async def _post(client: httpx.AsyncClient, path: str, body: bytes) -> httpx.Response:
    retrying = AsyncRetrying(
        retry=retry_if_exception_type((_TryAgain, httpx.TransportError)),
        wait=wait_random(0.2, 1.0),
        stop=stop_after_delay(_PATIENCE_SECONDS),
        reraise=True,
    )
    try:
        return await retrying(_post_once, client, path, body)
    except (_TryAgain, httpx.TransportError) as err:
        raise TransientDependencyError(
            f"no agent takes data at {client.base_url}; is it running, and is that its address?"
        ) from err


async def _post_once(client: httpx.AsyncClient, path: str, body: bytes) -> httpx.Response:
    headers = {"content-type": "application/x-protobuf"}
    answer = await client.post(path, content=body, headers=headers)
    if answer.status_code in {429, 502, 503, 504}:
        raise _TryAgain
    return answer
