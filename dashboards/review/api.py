"""The JSON API: reports, the pages' data, and what people decide; described in `openapi`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from collector.candidates import actor_of
from collector.gates import accept_gate
from dashboards.review.asking import json_array, json_body, options_of, window_of
from dashboards.review.desk import Desk
from dashboards.review.openapi import description
from dashboards.review.render import linked

_OPTIONS = {
    "calibration": set[str](),
    "estimates": {"segment", "scorer"},
    "live_questions": set[str](),
    "golden_answers": {"attribute"},
    **{name: {"segment", "limit"} for name in ("review", "candidates", "claims_to_label")},
}
"""Options of the reports, of those not named here only the segment."""
LIST_OPTIONS = {"segment", "limit", "q", "state"}


def list_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a list as `Desk` takes them."""
    return {
        "segment": options.get("segment", ""),
        "limit": options.get("limit", 20),
        "words": options.get("q", ""),
        "state": options.get("state", ""),
    }


def api_routes(desk: Desk) -> list[Route]:
    """Return the routes below /api; the reports come last, by their names."""
    reports = desk.reports

    async def report(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in reports.names:
            raise HTTPException(404, f"no such report; there are {', '.join(reports.names)}")
        window = window_of(request, name)
        options = options_of(request, _OPTIONS.get(name, {"segment"}), name)
        return JSONResponse(await reports.named(name, window, **options))

    async def week(request: Request) -> Response:
        window = window_of(request, "review")
        options = list_options(options_of(request, LIST_OPTIONS, "week"))
        return _json(await desk.week(window, **options))

    async def conversation(request: Request) -> Response:
        options = options_of(request, {"reviewer", "turn", "blind"}, "conversation")
        found = await desk.conversation(
            request.path_params["name"],
            reviewer=options.get("reviewer", ""),
            focus=options.get("turn", ""),
            blind=options.get("blind") == "1",
        )
        return _json(_there(found, "no such conversation"))

    async def stored_request(request: Request) -> Response:
        found = await desk.request(linked(request.path_params["trace_id"]))
        return _json(_there(found, "no such request"))

    async def labels(request: Request) -> Response:
        now = datetime.now(UTC)
        found = await desk.accept_labels(await json_array(request), now)
        return JSONResponse({**found._asdict(), "labelled_at": now.isoformat()})

    async def evaluations(request: Request) -> Response:
        now = datetime.now(UTC)
        parts = await json_array(request)
        stored = [await reports.accept_evaluation(part, now) for part in parts]
        return JSONResponse({"stored": sum(stored)})

    async def gates(request: Request) -> Response:
        results = await json_array(request)
        for result in results:
            await accept_gate(reports.store, result)
        return JSONResponse({"stored": len(results)})

    async def draft(request: Request) -> Response:
        found = await desk.draft(request.path_params["trace_id"])
        return _json(_there(found, "no such request, or it holds no question"))

    async def candidate(request: Request) -> Response:
        return _json(await desk.candidate(request.path_params["candidate_id"]))

    async def act(request: Request) -> Response:
        name, action = request.path_params["candidate_id"], await json_body(request)
        return _json(await desk.act(name, action, datetime.now(UTC)))

    async def reviewed(_: Request) -> Response:
        return _json({"candidates": await desk.reviewed()})

    async def similar(request: Request) -> Response:
        question = options_of(request, {"question"}, "similar").get("question", "")
        return _json({"similar": await desk.similar(question)})

    async def sources(request: Request) -> Response:
        words = options_of(request, {"q"}, "sources").get("q", "")
        return _json({"sources": await desk.sources(words, datetime.now(UTC))})

    async def export(request: Request) -> Response:
        asked = await json_body(request)
        actor = actor_of(asked.get("actor") if isinstance(asked, dict) else None)
        return _json(await desk.export(actor, datetime.now(UTC)))

    async def openapi(_: Request) -> Response:
        return JSONResponse(description())

    return [
        Route("/api/openapi.json", openapi),
        Route("/api/week", week),
        Route("/api/conversations/{name:path}", conversation),
        Route("/api/requests/{trace_id:path}", stored_request),
        Route("/api/labels", labels, methods=["POST"]),
        Route("/api/evaluations", evaluations, methods=["POST"]),
        Route("/api/gates", gates, methods=["POST"]),
        Route("/api/drafts/{trace_id:path}", draft),
        Route("/api/candidates/{candidate_id}", candidate),
        Route("/api/candidates/{candidate_id}/events", act, methods=["POST"]),
        Route("/api/reviewed", reviewed),
        Route("/api/similar", similar),
        Route("/api/sources", sources),
        Route("/api/export", export, methods=["POST"]),
        Route("/api/{name}", report),
    ]


def _json(found: Any) -> Response:
    return Response(msgspec.json.encode(found), media_type="application/json")


def _there(found: Any, absence: str) -> Any:
    if found is None:
        raise HTTPException(404, absence)
    return found
