"""Where clients post signals, in which words, and what they expect as an answer.

Beside our own `/v1/signals` these are the paths of the feedback calls of Langfuse, LangSmith and
Phoenix, so that an application keeps its client and changes its address alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from collector.model import Signal
from collector.receivers.replies import Reply, json_reply
from collector.signals import Client, ParsedSignals, langfuse, langsmith, parse_signals, phoenix

Read = Callable[[bytes, Client], ParsedSignals]
Answer = Callable[[ParsedSignals], Reply]

PHOENIX_VERSION = "12.0.0"
"""The version of Phoenix's server whose feedback calls are understood: its clients ask."""


LANGSMITH_BATCHES = {
    # Feedback then comes one by one at /feedback, not hidden in batches of runs.
    "use_multipart_endpoint": False,
    "size_limit": 100,
    "size_limit_bytes": 20 * 1024 * 1024,
    "scale_up_nthreads_limit": 1,
    "scale_up_qsize_trigger": 1000,
    "scale_down_nempty_trigger": 4,
}
"""How LangSmith's client is to send; it takes all of these for granted."""


class Call(NamedTuple):
    """One call that brings signals: how to read its body and how to answer it."""

    read: Read
    answer: Answer


class _Route(NamedTuple):
    method: str
    path: re.Pattern[str]
    call: Callable[[str], Call]
    """Makes the call from the id in the path, "" where it holds none."""


def call_of(method: str, path: str) -> Call | None:
    """Return the signal call with this method, by how its path ends; None where it is none."""
    for route in _ROUTES:
        if route.method == method and (match := route.path.search(path)):
            return route.call(match[1] if route.path.groups else "")
    return None


def methods_of(path: str) -> list[str]:
    """Return the methods with which signals come to this path, [] where none do."""
    return sorted({route.method for route in _ROUTES if route.path.search(path)})


def greeting_of(method: str, path: str) -> Reply | None:
    """Answer what clients ask before they send; None where it is something else."""
    if method != "GET":
        return None
    if path.endswith("/arize_phoenix_version"):
        return Reply(200, {"content-type": "text/plain"}, PHOENIX_VERSION.encode())
    if path.endswith("/info"):
        return json_reply({"batch_ingest_config": LANGSMITH_BATCHES})
    return None


# --- Answers -----------------------------------------------------------------------------


def _own(parsed: ParsedSignals) -> Reply:
    return json_reply({"accepted": len(parsed.signals), "rejected": parsed.rejected})


def _langfuse_scores(parsed: ParsedSignals) -> Reply:
    """Langfuse takes what it can and reports the rest with 207."""
    if parsed.rejected:
        errors = [{"message": problem} for problem in parsed.rejected]
        accepted = len(parsed.outcomes) - len(errors)
        return json_reply({"accepted": accepted, "rejected": len(errors), "errors": errors}, 207)
    ids = _ids(parsed)
    # Older clients, which send one score, read its id; newer ones the message.
    return json_reply({"message": "Accepted", **({"id": ids[0]} if len(ids) == 1 else {})})


def _langfuse_ingestion(parsed: ParsedSignals) -> Reply:
    taken: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    for result, ref in parsed.outcomes:
        if isinstance(result, str):
            errors.append({"id": ref, "status": 400, "message": result})
        else:
            taken.append({"id": ref, "status": 201})
    return json_reply({"successes": taken, "errors": errors}, 207)


def _langsmith(parsed: ParsedSignals) -> Reply:
    return json_reply({"id": _ids(parsed)[0], "rejected": parsed.rejected})


def _phoenix(parsed: ParsedSignals) -> Reply:
    data = [{"id": found} for found in _ids(parsed)]
    return json_reply({"data": data, "rejected": parsed.rejected})


def _phoenix_note(parsed: ParsedSignals) -> Reply:
    return json_reply({"data": {"id": _ids(parsed)[0]}})


def _ids(parsed: ParsedSignals) -> list[str]:
    """Return the id of each item's signal, "" where it gave none."""
    results = [outcome.result for outcome in parsed.outcomes]
    return [result.signal_id if isinstance(result, Signal) else "" for result in results]


# --- Routes ------------------------------------------------------------------------------


def _plain(read: Read, answer: Answer) -> Callable[[str], Call]:
    return lambda _: Call(read, answer)


def _read_own(body: bytes, client: Client) -> ParsedSignals:
    return parse_signals(body, client.received_at)


_LANGFUSE_SCORE = r"/api/public/scores/([^/]{1,500})/?$"
_LANGSMITH_FEEDBACK = r"/feedback/([0-9a-fA-F-]{32,36})/?$"

_ROUTES = (
    _Route("POST", re.compile(r"/v1/signals/?$"), _plain(_read_own, _own)),
    _Route(
        "POST",
        re.compile(r"/api/public/scores/?$"),
        _plain(langfuse.parse_scores, _langfuse_scores),
    ),
    _Route(
        "POST",
        re.compile(r"/api/public/ingestion/?$"),
        _plain(langfuse.parse_ingestion, _langfuse_ingestion),
    ),
    _Route(
        "DELETE",
        re.compile(_LANGFUSE_SCORE),
        lambda i: Call(lambda _, client: langfuse.deletion(i, client), _langfuse_scores),
    ),
    _Route("POST", re.compile(r"/feedback/?$"), _plain(langsmith.parse_feedback, _langsmith)),
    _Route(
        "PATCH",
        re.compile(_LANGSMITH_FEEDBACK),
        lambda i: Call(lambda body, client: langsmith.parse_change(i, body, client), _langsmith),
    ),
    _Route(
        "DELETE",
        re.compile(_LANGSMITH_FEEDBACK),
        lambda i: Call(lambda _, client: langsmith.deletion(i, client), _langsmith),
    ),
    _Route(
        "POST",
        re.compile(r"/v1/(?:span|trace|session|document)_annotations/?$"),
        _plain(phoenix.parse_annotations, _phoenix),
    ),
    _Route(
        "POST",
        re.compile(r"/v1/(?:span|trace|session)_notes/?$"),
        _plain(phoenix.parse_note, _phoenix_note),
    ),
)
