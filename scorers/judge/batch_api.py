"""The Batch API of an OpenAI-compatible endpoint: files in, batches, files out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import openai

from collector.errors import TransientDependencyError
from collector.ports import BatchAnswer

_OURS = "groundwatch_batch"
_ENDED = ("completed", "expired", "cancelled", "failed")
_LOOKED_AT = 100


class BatchState(NamedTuple):
    """A batch at the provider's. The files are ids, None where there is none."""

    ended: bool
    files: list[str]


class _Response(msgspec.Struct, frozen=True):
    status_code: int = 0
    body: msgspec.Raw = msgspec.Raw(b"null")


class _Line(msgspec.Struct, frozen=True):
    custom_id: str
    response: _Response | None = None


class BatchApi:
    """Raises TransientDependencyError where the provider does not answer, or with an error."""

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self._client = client

    async def create(self, name: str, calls: Sequence[tuple[str, bytes]]) -> str:
        """Send a batch under a name of ours and return the provider's id."""
        lines = b"\n".join(
            b'{"custom_id": %s, "method": "POST", "url": "/v1/chat/completions", "body": %s}'
            % (json.dumps(key).encode(), body)
            for key, body in calls
        )
        try:
            file = await self._client.files.create(file=(f"{name}.jsonl", lines), purpose="batch")
            batch = await self._client.batches.create(
                input_file_id=file.id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={_OURS: name},
            )
        except openai.OpenAIError as err:
            raise _away(err) from err
        return batch.id

    async def find(self, name: str) -> str | None:
        """Return the provider's id of a batch of ours, None where none was made."""
        try:
            page = await self._client.batches.list(limit=_LOOKED_AT)
        except openai.OpenAIError as err:
            raise _away(err) from err
        return next((b.id for b in page.data if (b.metadata or {}).get(_OURS) == name), None)

    async def state(self, batch_id: str) -> BatchState:
        """Return how far a batch is."""
        try:
            batch = await self._client.batches.retrieve(batch_id)
        except openai.OpenAIError as err:
            raise _away(err) from err
        files = [file for file in (batch.output_file_id, batch.error_file_id) if file]
        return BatchState(batch.status in _ENDED, files)

    async def answers(self, file_id: str) -> Mapping[str, BatchAnswer]:
        """Return the answers of a file by key; what cannot be read in it is left out."""
        try:
            content = await self._client.files.content(file_id)
        except openai.OpenAIError as err:
            raise _away(err) from err
        found: dict[str, BatchAnswer] = {}
        for raw in content.content.splitlines():
            try:
                line = msgspec.json.decode(raw, type=_Line, strict=False)
            except (msgspec.DecodeError, UnicodeError):
                continue
            response = line.response or _Response()
            found[line.custom_id] = BatchAnswer(response.status_code, bytes(response.body))
        return found


def _away(err: openai.OpenAIError) -> TransientDependencyError:
    status: Any = getattr(err, "status_code", "")
    return TransientDependencyError(f"batch api: {type(err).__name__} {status}".strip())
