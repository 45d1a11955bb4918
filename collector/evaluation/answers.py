"""What an assistant answered to a golden question, read from JSON by JMESPath expressions."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import jmespath
import msgspec
from jmespath.exceptions import JMESPathError

from collector.config import ResponseConfig
from collector.model import Document
from sinks.rows import text

NUMBERS = ("latency_ms", "input_tokens", "output_tokens", "cost_usd")
"""What an answer took, as far as it is known."""

_TEXTS = ("document_id", "chunk_id", "source", "title", "text")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back for one question.

    `documents` is the final context and `retrieved` what was found before reranking and cutting,
    None where the assistant does not tell; both by rank. `error` says why there is no answer.
    """

    question_id: str
    answer: str | None = None
    documents: list[Document] | None = None
    retrieved: list[Document] | None = None
    model: str | None = None
    trace_id: str | None = None
    latency_ms: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    cost_usd: float | None = None
    error: str | None = None


class Unreadable(Exception):
    """A response of another shape. The message names the setting and the cure, no values."""


class ResponseReader:
    """Reads responses by the configured expressions, compiled once."""

    def __init__(self, config: ResponseConfig) -> None:
        self._paths = {
            name: jmespath.compile(path) for name, path in config.model_dump().items() if path
        }

    def read(self, question_id: str, body: Any) -> Answer:
        """Return the answer in a response; what the response lacks is None.

        Raises:
            Unreadable: a value is of another type than it must be.
        """
        found = {name: _search(name, path, body) for name, path in self._paths.items()}
        fields: dict[str, Any] = {
            **{name: _documents(name, found.get(name)) for name in ("documents", "retrieved")},
            **{name: _text(name, found.get(name)) for name in ("answer", "model", "trace_id")},
            **{name: _number(name, found.get(name)) for name in NUMBERS},
        }
        return Answer(question_id=question_id, **fields)


def _search(name: str, path: Any, body: Any) -> Any:
    try:
        return path.search(body)
    except JMESPathError as err:
        raise Unreadable(f"evaluation.target.response.{name}: {type(err).__name__}") from err


def _documents(name: str, value: Any) -> list[Document] | None:
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise Unreadable(_wrong(name, "a list of ids or of objects such as {document_id, text}"))
    return [_document(name, rank, item) for rank, item in enumerate(value, start=1)]


def _document(name: str, rank: int, item: Any) -> Document:
    if isinstance(item, str | int) and not isinstance(item, bool):
        return Document(rank=rank, document_id=text(str(item)))
    if not isinstance(item, Mapping):
        raise Unreadable(_wrong(name, "a list of ids or of objects such as {document_id, text}"))
    fields: dict[str, Any] = {
        field: text(str(item[field])) for field in _TEXTS if isinstance(item.get(field), str | int)
    }
    if "document_id" not in fields and isinstance(item.get("id"), str | int):
        fields["document_id"] = text(str(item["id"]))
    if not fields:
        raise Unreadable(_wrong(name, f"objects with one of {', '.join(_TEXTS)}"))
    return Document(rank=rank, **fields)


def _text(name: str, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else text(value)
    raise Unreadable(_wrong(name, "a text"))


def _number(name: str, value: Any) -> float | None:
    if value is None:
        return None
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    if not usable or not 0 <= value <= sys.float_info.max:
        raise Unreadable(_wrong(name, "a number that is not negative"))
    return float(value)


def _wrong(name: str, wanted: str) -> str:
    return f"evaluation.target.response.{name}: must lead to {wanted}"
