"""Run tiny RAG apps with the current releases of tracing libraries and check what is read.

Every app runs in a virtual environment of its own kind, talks to a model that always answers the
same, and exports over OTLP to a collector here. The record of its trace must hold the question,
the answer, the documents, the model, the tokens, the conversation and the user, as far as its
library can tell. Needs `uv`, a package index and about 2 GB of disk; the environments stay for
the next run, which renews the packages in them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from collector.errors import MalformedPayload
from collector.extract import extract
from collector.model import RagRequest, Span
from collector.otlp import canonical_traces, collect_trace, decode_traces
from tests.live.apps.shop import ANSWER, MODEL, PAGES, QUESTION
from tests.live.endpoints import Endpoints
from tests.live.libraries import APPS, ENVIRONMENTS, App

SCRIPTS = Path(__file__).parent / "apps"
FOLDER = Path(tempfile.gettempdir()) / "groundwatch-live"
APP_SECONDS = 180
Fields = dict[str, object]


def expected(app: App) -> Fields:
    """Return the fields that the record of an app must have."""
    pages = PAGES[:2] if app.documents else ()
    return {
        "question": QUESTION,
        "answer": ANSWER,
        "texts": [page.text for page in pages],
        "ids": [page.id if app.ids else None for page in pages],
        "sources": [page.source for page in pages],
        "model": MODEL,
        "llm_calls": app.llm_calls,
        "input_tokens": app.input_tokens,
        "output_tokens": app.output_tokens,
        "conversation_id": app.conversation_id,
        "user_id": app.user_id,
    }


def fields_of(request: RagRequest) -> Fields:
    """Return the same fields of a record that was read."""
    documents = request.documents
    return {
        "question": request.question,
        "answer": request.answer,
        "texts": [document.text and document.text.strip() for document in documents],
        "ids": [document.document_id for document in documents],
        "sources": [document.source for document in documents],
        "model": request.model,
        "llm_calls": request.llm_calls,
        "input_tokens": request.input_tokens,
        "output_tokens": request.output_tokens,
        "conversation_id": request.conversation_id,
        "user_id": request.user_id,
    }


def requests_in(bodies: Iterable[tuple[bytes, str]]) -> list[RagRequest]:
    """Return the requests that export bodies tell of, read as the agent reads them.

    Raises:
        MalformedPayload: a body is no trace export, or spans of it would be turned away.
    """
    spans: dict[str, list[Span]] = {}
    for body, content_type in bodies:
        kept = canonical_traces(body, content_type)
        if kept.rejected:
            raise MalformedPayload(f"{kept.rejected} spans: {kept.rejected_reason}")
        for span in decode_traces(kept.body, "application/x-protobuf").spans:
            spans.setdefault(span.trace_id, []).append(span)
    found = [extract(collect_trace(trace_id, own)) for trace_id, own in spans.items()]
    return [request for request in found if isinstance(request, RagRequest)]


class Environment:
    """A virtual environment with the current releases of some packages."""

    def __init__(self, name: str) -> None:
        self.python = FOLDER / name / "bin" / "python"
        self._folder = FOLDER / name
        self._packages = ENVIRONMENTS[name]

    def renew(self) -> None:
        """Make it if it is not there, and install what is current."""
        if not self.python.exists():
            _run("uv", "venv", "--quiet", "--python", sys.executable, str(self._folder))
        install = ("uv", "pip", "install", "--quiet", "--upgrade", "--prerelease", "if-necessary")
        _run(*install, "--python", str(self.python), *self._packages)

    def version(self, package: str) -> str:
        """Return the version of a package in it."""
        code = f"import importlib.metadata as m; print(m.version({package!r}))"
        return _run(str(self.python), "-c", code).strip()

    def run(self, app: App, url: str) -> list[str]:
        """Run an app against the endpoints at `url`; return the end of its errors if it failed."""
        done = subprocess.run(
            [str(self.python), str(SCRIPTS / f"{app.script}.py")],
            env=_environ(app, url),
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=APP_SECONDS,
            check=False,
        )
        return done.stderr.splitlines()[-5:] if done.returncode else []


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _environ(app: App, url: str) -> dict[str, str]:
    """Return where to send what, in the names that the libraries look for."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(FOLDER),
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{url}/v1/traces",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
        "HAYSTACK_CONTENT_TRACING_ENABLED": "true",
        "HAYSTACK_TELEMETRY_ENABLED": "false",
        "TRACELOOP_TELEMETRY": "false",
        "LANGFUSE_BASE_URL": url,
        "LANGFUSE_PUBLIC_KEY": "none",
        "LANGFUSE_SECRET_KEY": "none",
        "LANGSMITH_TRACING": str(app.environment == "langsmith").lower(),
        "LANGSMITH_OTEL_ENABLED": "true",
        "LANGSMITH_OTEL_ONLY": "true",
        "LANGSMITH_ENDPOINT": url,
        "LANGSMITH_API_KEY": "none",
    }


def faults_of(app: App, environment: Environment, keep: Path | None) -> list[str]:
    """Run one app; return what is wrong with the record of it."""
    with Endpoints() as endpoints:
        failed = environment.run(app, endpoints.url)
    if failed:
        return ["the app failed:", *failed]
    if keep is not None:
        for number, (body, _) in enumerate(endpoints.received):
            (keep / f"{app.script}-{number}.pb").write_bytes(body)
    requests = requests_in(endpoints.received)
    if len(requests) != 1:
        return [f"{len(requests)} requests read, not one"]
    found = fields_of(requests[0])
    wanted = expected(app)
    return [f"{f}: {found[f]!r}, not {wanted[f]!r}" for f in wanted if found[f] != wanted[f]]


def main() -> int:
    """Print one line an app, and the fields that are wrong; 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="a word in the names of the apps to run")
    parser.add_argument("--offline", action="store_true", help="leave the environments as they are")
    parser.add_argument("--keep", type=Path, help="a folder to put the export bodies into")
    arguments = parser.parse_args()
    apps = [app for app in APPS if (arguments.only or "") in app.script]
    environments = {app.environment: Environment(app.environment) for app in apps}
    if not arguments.offline:
        for environment in environments.values():
            environment.renew()
    wrong = 0
    for app in apps:
        environment = environments[app.environment]
        faults = faults_of(app, environment, arguments.keep)
        fields = len(expected(app))
        said = "all right" if not faults else "WRONG"
        version = environment.version(app.library)
        print(f"{app.script:28}{app.library:44}{version:10}{fields:3} fields {said}", flush=True)
        for fault in faults:
            print(f"    {fault}", flush=True)
        wrong += bool(faults)
    print(f"\n{len(apps) - wrong} of {len(apps)} apps are read right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
