"""An HTTP server in the place of the agent: keeps what the demo sends, answers as it is told."""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


class Post(NamedTuple):
    """One request that the agent received, and when on the monotonic clock."""

    path: str
    body: bytes
    content_type: str
    at: float


class Agent:
    """Stands in for groundwatch: keeps what it is sent, and answers as it is told."""

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.reply: Callable[[int, str], tuple[int, dict[str, str]]] = lambda *_: (200, {})
        self.delay_seconds = 0.0
        agent = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                content_type = self.headers["Content-Type"]
                agent.posts.append(Post(self.path, body, content_type, time.monotonic()))
                time.sleep(agent.delay_seconds)
                status, headers = agent.reply(len(agent.posts), self.path)
                self.send_response(status)
                for name, value in {"Content-Length": "0", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def sent_to(self, path: str) -> list[Post]:
        return [post for post in self.posts if post.path == path]


@contextmanager
def listening() -> Iterator[Agent]:
    stand_in = Agent()
    thread = threading.Thread(target=stand_in.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield stand_in
    finally:
        stand_in.server.shutdown()
        stand_in.server.server_close()
        thread.join()


class Received(NamedTuple):
    """A span as it arrived."""

    name: str
    parent: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    events: list[str]
    service: str


def plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(item) for item in value.array_value.values]
    return getattr(value, kind) if kind is not None else None


def traces_in(posts: list[Post]) -> dict[str, list[Received]]:
    """Return the spans of protobuf bodies by trace id."""
    found: dict[str, list[Received]] = defaultdict(list)
    for post in posts:
        assert post.content_type == "application/x-protobuf"
        for resource_spans in ExportTraceServiceRequest.FromString(post.body).resource_spans:
            resource = {a.key: plain(a.value) for a in resource_spans.resource.attributes}
            for scope_spans in resource_spans.scope_spans:
                for span in scope_spans.spans:
                    found[span.trace_id.hex()].append(
                        Received(
                            name=span.name,
                            parent=span.parent_span_id.hex(),
                            start_ns=span.start_time_unix_nano,
                            end_ns=span.end_time_unix_nano,
                            attributes={a.key: plain(a.value) for a in span.attributes},
                            events=[event.name for event in span.events],
                            service=resource["service.name"],
                        )
                    )
    return found


def signals_in(posts: list[Post]) -> list[dict[str, Any]]:
    return [signal for post in posts for signal in json.loads(post.body)]
