"""The Batch API of the fake server: files and batches, kept over connections."""

from __future__ import annotations

import json
import threading
from email import message_from_bytes
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.fakes.openai_server import Behaviour, good


class Batches:
    """Answers each line of a batch by `behaviour`, once `ending` is what it is to end with.

    While `ending` is None batches stay in progress. With "expired" the first `answered` lines have
    answers and the others have not.
    """

    def __init__(self, behaviour: Behaviour | None = None) -> None:
        self.behaviour = behaviour or good()
        self.ending: str | None = "completed"
        self.answered: int | None = None
        self.lose_next_reply = False
        self.files: dict[str, bytes] = {}
        self.made: list[dict[str, Any]] = []
        self.lines: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self.routes = [
            Route("/v1/files", self._upload, methods=["POST"]),
            Route("/v1/files/{id}/content", self._content),
            Route("/v1/batches", self._create, methods=["POST"]),
            Route("/v1/batches", self._list),
            Route("/v1/batches/{id}", self._retrieve),
        ]

    async def _upload(self, request: Request) -> Response:
        head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
        parts: Any = message_from_bytes(head + await request.body()).get_payload()
        upload = next(part for part in parts if part.get_filename())
        return JSONResponse(self._file(upload.get_payload(decode=True)))

    async def _content(self, request: Request) -> Response:
        return Response(self.files[request.path_params["id"]])

    async def _create(self, request: Request) -> Response:
        wanted = await request.json()
        batch = {
            "id": f"batch_{len(self.made)}",
            "object": "batch",
            "created_at": 1_700_000_000,
            "status": "in_progress",
            **wanted,
        }
        self.made.append(batch)
        self.lines += map(json.loads, self.files[wanted["input_file_id"]].splitlines())
        if self.lose_next_reply:
            self.lose_next_reply = False
            return JSONResponse({"error": {"message": "gone"}}, status_code=500)
        return JSONResponse(batch)

    async def _list(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": self.made, "has_more": False})

    async def _retrieve(self, request: Request) -> Response:
        batch = next(b for b in self.made if b["id"] == request.path_params["id"])
        if self.ending and batch["status"] == "in_progress":
            lines = self.files[batch["input_file_id"]].splitlines()[: self.answered]
            answers = [await self._answer(json.loads(line)) for line in lines]
            for name, failed in (("output_file_id", False), ("error_file_id", True)):
                kept = [a for a in answers if (a["response"]["status_code"] != 200) == failed]
                if kept:
                    batch[name] = self._file("\n".join(map(json.dumps, kept)).encode())["id"]
            batch["status"] = self.ending
        return JSONResponse(batch)

    async def _answer(self, line: dict[str, Any]) -> dict[str, Any]:
        reply = await self.behaviour(line["body"])
        body = json.loads(bytes(reply.body))
        response = {"status_code": reply.status_code, "request_id": "r", "body": body}
        return {"id": "x", "custom_id": line["custom_id"], "response": response, "error": None}

    def _file(self, content: bytes) -> dict[str, Any]:
        with self._lock:
            file_id = f"file_{len(self.files)}"
            self.files[file_id] = content
        return {
            "id": file_id,
            "object": "file",
            "bytes": len(content),
            "created_at": 1_700_000_000,
            "filename": "f",
            "purpose": "batch",
            "status": "processed",
        }
