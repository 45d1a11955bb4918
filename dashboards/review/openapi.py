"""The OpenAPI description of the JSON API (version 3.1), written down beside its handlers."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from collector.candidates import EVENT_KINDS
from collector.labels import ANSWER_LABELS, CAUSES, CLAIM_VERDICTS, MIN_PROBABILITY
from dashboards.candidate_states import FRESH
from dashboards.review.login import COOKIE
from dashboards.review.week import STATES

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "number"}
_YES_NO: Schema = {"type": "boolean"}
_ANY: Schema = {"type": "object"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_REFUSALS = {
    "401": "Where there is a login: nobody is logged in, and no token is known.",
    "400": "Names the field or parameter at fault, and the cure.",
    "403": "Another web page sent it, or it is signed with another name than the login's.",
    "404": "It is not stored.",
    "409": "Somebody changed it meanwhile; nothing was saved.",
    "503": "The store does not answer now.",
}


def description() -> dict[str, Any]:
    """Return the description as OpenAPI wants it."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "groundwatch review",
            "version": version("groundwatch"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "What the review page reads and writes. Bodies are JSON with that "
            "content type. What a browser sends for a page of another site is refused.",
        },
        "paths": {f"/api/{path}": method for path, method in _PATHS.items()},
        "components": {"schemas": _SCHEMAS, "securitySchemes": _LOGINS},
        "security": [{name: list[str]()} for name in _LOGINS],
    }


# --- Building blocks ------------------------------------------------------------------------


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _or_null(schema: Schema) -> Schema:
    return {"oneOf": [schema, {"type": "null"}]}


def _object(required: dict[str, Schema], **optional: Schema) -> Schema:
    return {"type": "object", "required": list(required), "properties": required | optional}


def _in_path(name: str, text: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "description": text, "schema": _TEXT}


def _query(name: str, text: str, schema: Schema = _TEXT) -> Schema:
    return {"name": name, "in": "query", "description": text, "schema": schema}


def _json(text: str, schema: Schema) -> Schema:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _answers(schema: Schema, *refusals: str) -> Schema:
    refused = {code: _json(_REFUSALS[code], _ref("Error")) for code in ("401", *refusals, "503")}
    return {"200": _json("As asked.", schema), **refused}


def _get(summary: str, schema: Schema, *parameters: Schema) -> Schema:
    stored = any(one["in"] == "path" for one in parameters)
    refusals = ("404",) if stored else ("400",)
    return {
        "get": {
            "summary": summary,
            "parameters": list(parameters),
            "responses": _answers(schema, *refusals),
        }
    }


def _post(summary: str, body: Schema, schema: Schema, *parameters: Schema) -> Schema:
    return {
        "post": {
            "summary": summary,
            "parameters": list(parameters),
            "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
            "responses": _answers(schema, "400", "403", "409"),
        }
    }


# --- What there is --------------------------------------------------------------------------

_WINDOW = (
    _query("since", "start: a span before the end, such as 7d, or an ISO time with a zone"),
    _query("until", "end: an ISO time with a zone; default now"),
    _query("week", "an ISO week in place of both, such as 2026-W48"),
)
_SEGMENT = _query("segment", "only this segment")
_LIMIT = _query("limit", "how many at most", {"type": "integer", "minimum": 1, "maximum": 500})
_LISTED = (*_WINDOW, _SEGMENT, _LIMIT)
_STORED = _object({"stored": _COUNT})
_CANDIDATE = _in_path("candidate_id", "id of the candidate, and of its golden row")
_TRACE = _in_path("trace_id", "trace id of the request")

_LOGINS: dict[str, Schema] = {
    "token": {"type": "http", "scheme": "bearer", "description": "of review.api_token_env"},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
}

_PATHS: dict[str, Schema] = {
    "week": _get(
        "The state of a week beside the week before, and its worst conversations",
        _ref("Week"),
        *_LISTED,
        _query("q", "words that question, answer or id must hold"),
        _query("state", "only conversations in this state", {"enum": ["", *STATES]}),
    ),
    "conversations/{name}": _get(
        "A conversation with claims, evidence, signals and labels",
        _ref("Conversation"),
        _in_path("name", "conversation id, or trace id of a request without one"),
        _query("reviewer", "whose labels are `own`"),
        _query("turn", "trace id of the turn to open"),
        _query("blind", "1: leave out what the judge says until the reviewer has labelled it"),
    ),
    "requests/{trace_id}": _get("The stored record of a request", _ANY, _TRACE),
    "labels": _post(
        "Label claims and answers, or take labels back",
        {"oneOf": [_ref("Label"), _list(_ref("Label"))]},
        _ref("Accepted"),
    ),
    "drafts/{trace_id}": _get(
        "The golden row that a request would make, and where its candidate stands",
        _ref("Draft"),
        _TRACE,
    ),
    "candidates/{candidate_id}": _get(
        "Where a golden candidate stands", _ref("Candidate"), _CANDIDATE
    ),
    "candidates/{candidate_id}/events": _post(
        "Propose, edit, accept, reject or undo", _ref("Action"), _ref("Candidate"), _CANDIDATE
    ),
    "reviewed": _get(
        "All golden candidates that people have touched",
        _object({"candidates": _list(_ref("Candidate"))}),
    ),
    "similar": _get(
        "Golden rows that ask nearly the same",
        _object(
            {
                "similar": _list(
                    _object({"id": _TEXT, "question": _TEXT, "score": _COUNT, "same": _YES_NO})
                )
            }
        ),
        _query("question", "the question"),
    ),
    "sources": _get(
        "Pages of the last four weeks",
        _object(
            {"sources": _list(_object({"id": _TEXT, "title": _TEXT_OR_NULL, "times": _COUNT}))}
        ),
        _query("q", "words of id or title"),
    ),
    "export": _post(
        "Add accepted candidates to the golden file that is configured",
        _object({"actor": _TEXT}),
        _object({"file": _TEXT, "added": _list(_TEXT), "already_there": _ANY}),
    ),
    "evaluations": _post(
        "Take in a part of a run of the golden set; `groundwatch eval` does",
        {"oneOf": [_ANY, _list(_ANY)]},
        _STORED,
    ),
    "gates": _post(
        "Take in what the release gate said; `groundwatch gate` does",
        {"oneOf": [_ANY, _list(_ANY)]},
        _STORED,
    ),
    "openapi.json": _get("This description", _ANY),
    "estimates": _get(
        "Faithfulness per segment with interval, and where every request is",
        _ANY,
        *_WINDOW,
        _SEGMENT,
    ),
    "review": _get("The worst conversations in full", _ANY, *_LISTED),
    "candidates": _get("Golden candidates drafted from the worst conversations", _ANY, *_LISTED),
    "signals": _get("Signals of users by segment and kind", _ANY, *_WINDOW, _SEGMENT),
    "doctor": _get("What the stored requests lack for being monitored", _ANY, *_WINDOW, _SEGMENT),
    "calibration": _get("How far the judge agrees with people", _ANY, *_WINDOW),
    "claims_to_label": _get(
        "Claims drawn by chance for people to label, verdicts hidden", _ANY, *_LISTED
    ),
    "golden_answers": _get(
        "Requests whose traces carry the id of a golden row",
        _ANY,
        *_WINDOW,
        _query("attribute", "span attribute that holds the id"),
    ),
    "live_questions": _get("Questions of users, for the golden set", _ANY, *_WINDOW),
}

_SCHEMAS: dict[str, Schema] = {
    "Error": _object({"error": _TEXT}),
    "Label": _object(
        {
            "trace_id": _TEXT,
            "verdict": {
                "enum": ["", *CLAIM_VERDICTS, *ANSWER_LABELS],
                "description": "empty takes a label back",
            },
            "labeller": _TEXT,
        },
        claim={
            "type": "string",
            "description": "its text as the judge listed it; empty for the answer as a whole",
        },
        labelled_at={"type": "string", "format": "date-time"},
        note=_TEXT_OR_NULL,
        cause={"enum": ["", *CAUSES], "description": "of an answer"},
        blind=_YES_NO,
        drawn={
            "type": "boolean",
            "default": True,
            "description": "chosen by chance; others stay out of the calibration",
        },
        probability={"type": "number", "minimum": MIN_PROBABILITY, "maximum": 1},
        seen={
            "type": ["string", "null"],
            "description": "labelled_at of the label it replaces, null for none; "
            "where another one stands, that is a conflict",
        },
    ),
    "Accepted": _object(
        {
            "stored": _COUNT,
            "unlisted": {**_COUNT, "description": "on claims that this judge has not listed"},
            "labelled_at": {"type": "string", "description": "of those that did not say when"},
        }
    ),
    "GivenLabel": _object(
        {
            "labeller": _TEXT,
            "labelled_at": _TEXT,
            "verdict": _TEXT,
            "cause": _TEXT,
            "note": _TEXT_OR_NULL,
        },
        blind=_YES_NO,
        drawn=_YES_NO,
        machine_verdict=_TEXT_OR_NULL,
    ),
    "Row": _object(
        {"question": _TEXT},
        reference_answer=_TEXT_OR_NULL,
        gold_sources=_list(_TEXT),
        quotes=_list(_TEXT),
        segment=_TEXT_OR_NULL,
        answerable=_YES_NO,
    ),
    "Action": _object(
        {
            "event": {"enum": list(EVENT_KINDS)},
            "actor": _TEXT,
            "seen": {
                "type": "integer",
                "description": "version as the actor knows it; a later one is a conflict",
            },
        },
        row=_or_null(_ref("Row")),
        trace_id=_TEXT_OR_NULL,
        file=_TEXT_OR_NULL,
    ),
    "Candidate": _object(
        {
            "candidate_id": _TEXT,
            "state": {"enum": [FRESH, *(kind for kind in EVENT_KINDS if kind != "undone")]},
            "version": _COUNT,
            "history": _list(
                _object({"event": {"enum": list(EVENT_KINDS)}, "actor": _TEXT, "at": _TEXT})
            ),
        },
        actor=_TEXT_OR_NULL,
        at=_TEXT_OR_NULL,
        row=_or_null(_ref("Row")),
        provenance=_ANY,
        trace_id=_TEXT_OR_NULL,
    ),
    "Draft": _object(
        {"made": _ANY, "turn": _ANY, "conversation_id": _TEXT, "candidate": _ref("Candidate")}
    ),
    "Week": _object(
        {
            "since": _TEXT,
            "until": _TEXT,
            "estimates": _ANY,
            "before": _ANY,
            "signals": _ANY,
            "signals_before": _ANY,
            "spend": _object(
                {
                    "usd": _NUMBER,
                    "usd_before": _NUMBER,
                    "calls": _COUNT,
                    "calls_before": _COUNT,
                    "unpriced": _COUNT,
                    "unpriced_before": _COUNT,
                    "forecast": {"type": ["number", "null"]},
                }
            ),
            "changes": _list(_TEXT),
            "progress": _object({"done": _COUNT, "all": _COUNT}),
            "conversations": _list(_ref("Listed")),
        }
    ),
    "Listed": _object(
        {
            "conversation_id": _TEXT,
            "worst_trace_id": _TEXT,
            "question": _TEXT_OR_NULL,
            "reasons": _list(_TEXT),
            "badness": _NUMBER,
            "segment": _TEXT,
            "started_at": _TEXT,
            "requests": _COUNT,
            "signals": _COUNT,
            "stands_for": {
                "type": ["number", "null"],
                "description": "requests that it stands for; null where it was not drawn",
            },
            "state": {"enum": list(STATES)},
            "labellers": _list(_TEXT),
        }
    ),
    "Claim": _object(
        {
            "number": _COUNT,
            "text": _TEXT,
            "verdict": {"enum": [*CLAIM_VERDICTS, None]},
            "hidden": _YES_NO,
            "own": _or_null(_ref("GivenLabel")),
            "others": _list(_ref("GivenLabel")),
        },
        quote=_TEXT_OR_NULL,
        document_rank={"type": ["integer", "null"]},
        note=_TEXT_OR_NULL,
    ),
    "Conversation": _object(
        {
            "conversation_id": _TEXT,
            "judge": _TEXT,
            "turns": _list(_ref("Turn")),
            "turns_left_out": _COUNT,
            "timeline": _list(_ANY),
        }
    ),
    "Turn": _object(
        {
            "trace_id": _TEXT,
            "question": _TEXT_OR_NULL,
            "answer": _TEXT_OR_NULL,
            "claims": _list(_ref("Claim")),
            "documents": _list(_ANY),
            "labels": _ANY,
        },
        score={"type": ["number", "null"]},
        diagnosis={"type": ["object", "null"]},
        candidate=_or_null(_ref("Candidate")),
    ),
}
