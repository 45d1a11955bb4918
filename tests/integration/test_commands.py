"""Commands as a person types them: where they look for data, what they say, how they end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.bench.end_to_end import send
from tests.bench.load import bodies
from tests.processes import AgentProcess

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
READING = (
    ["estimates"],
    ["signals"],
    ["doctor", "--live"],
    ["review", "report"],
    ["golden", "candidates"],
    ["golden", "export", "golden.yaml"],
)


def groundwatch(
    folder: Path, *words: str, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "collector", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **(environ or {})},
        check=False,
    )


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> AgentProcess:
    """An agent that has run and left its folder, and the announcement of a killed one in it."""
    agent = AgentProcess(tmp_path_factory.mktemp("past"), {})
    with agent:
        pass
    return agent


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_where_no_data_is_reading_says_so_and_leaves_nothing_behind(
    tmp_path: Path, words: list[str]
) -> None:
    done = groundwatch(tmp_path, *words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"groundwatch: no data in {tmp_path}/groundwatch-data; name")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", READING[2:5], ids=" ".join)
def test_data_are_read_from_the_folder_named(
    past: AgentProcess, tmp_path: Path, words: list[str]
) -> None:
    done = groundwatch(tmp_path, *words, "--data-dir", str(past.data_dir))
    assert done.returncode == (1 if "doctor" in words else 0)  # it finds no request
    assert done.stderr == ""
    assert not (tmp_path / "groundwatch-data").exists()


def test_a_folder_and_a_store_elsewhere_are_not_both_believed(tmp_path: Path) -> None:
    (tmp_path / "gw.yaml").write_text("store: {url: 'http://ch.example:8123/db'}")
    done = groundwatch(tmp_path, "estimates", "-c", "gw.yaml", "--data-dir", "x")
    assert done.returncode == 2
    assert done.stderr == (
        "groundwatch: --data-dir: gw.yaml sets store.url already; leave one of them out\n"
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["estimates", "--since", "yesterday"], "--since: 'yesterday' is no ISO time"),
        (["signals", "--week", "W48"], "--week: 'W48' is not a week"),
        (["review", "report", "--week", "2026-W48", "--since", "7d"], "--week: stands for both"),
    ],
)
def test_a_wrong_option_is_named_and_no_configuration_is_blamed(
    tmp_path: Path, words: list[str], problem: str
) -> None:
    done = groundwatch(tmp_path, *words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"groundwatch: {problem}")


def test_reading_needs_no_key_of_the_judge(past: AgentProcess, tmp_path: Path) -> None:
    (tmp_path / "gw.yaml").write_text(
        f"{{data_dir: {past.data_dir}, judge: {{engine: openai, openai: {{api_key_env: NO_KEY}}}}}}"
    )
    read = groundwatch(tmp_path, "estimates", "-c", "gw.yaml", "--json")
    assert read.returncode == 0, read.stderr
    assert json.loads(read.stdout)["judge"]["fingerprint"].startswith("openai/")
    for command in ("run", "check-config"):
        assert "NO_KEY is not set" in groundwatch(tmp_path, command, "-c", "gw.yaml").stderr


@pytest.mark.parametrize("command", [("estimates",), ("signals",), ("review", "report")])
def test_a_segment_that_nothing_is_of_is_told(past: AgentProcess, command: tuple[str]) -> None:
    done = past.run_command(*command, "--segment", "looukp")
    assert done.returncode == 0
    assert done.stderr == (
        "nothing of segment 'looukp' in this window; without --segment you see which there are\n"
    )


# --- who answers -------------------------------------------------------------------------


def test_an_agent_is_asked_by_the_folder_alone(tmp_path: Path) -> None:
    with AgentProcess(tmp_path, {}) as agent:
        done = groundwatch(tmp_path, "estimates", "--data-dir", str(agent.data_dir), "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["total"]["requests"] == 0


class _Html(BaseHTTPRequestHandler):
    """Answers everything with a page, and health checks like the agent `x`."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        healthy = self.path == "/healthz"
        self.wfile.write(b'{"agent": "x"}' if healthy else b"<html>another program</html>")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def another_program() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Html)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("left", ["[]", '{"review": "http://[", "id": "x", "token": "t"}'])
def test_an_announcement_that_is_damaged_is_not_believed(past: AgentProcess, left: str) -> None:
    (past.data_dir / "agent.json").write_text(left)
    done = past.run_command("estimates", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["total"]["requests"] == 0


def test_another_program_at_the_address_of_a_killed_agent_is_not_asked(
    past: AgentProcess, another_program: str
) -> None:
    (past.data_dir / "agent.json").write_text(
        json.dumps({"review": another_program, "id": "y", "token": "t"})
    )
    done = past.run_command("estimates", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["total"]["requests"] == 0


def test_an_answer_that_is_no_report_is_said_in_one_line(
    past: AgentProcess, another_program: str
) -> None:
    (past.data_dir / "agent.json").write_text(
        json.dumps({"review": another_program, "id": "x", "token": "t"})
    )
    done = past.run_command("estimates")
    (past.data_dir / "agent.json").unlink()
    assert (done.returncode, done.stderr) == (
        3,
        f"groundwatch: the agent at {another_program} answered 200 without a report in it\n",
    )


def test_another_agent_at_the_address_of_a_killed_one_does_not_answer_for_it(
    past: AgentProcess, tmp_path: Path
) -> None:
    with AgentProcess(tmp_path, {"assembler": {"quiet_seconds": 0.3}}) as other:
        asyncio.run(send(other.urls["otlp_http"], list(bodies(1, 5))))
        deadline = time.monotonic() + 60
        while other.totals()["requests"] < 5:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        told = {"review": other.urls["review"], "id": "0" * 32, "token": "t"}
        (past.data_dir / "agent.json").write_text(json.dumps(told))
        answers = [agent.run_command("estimates", "--json") for agent in (past, other)]
    assert [json.loads(done.stdout)["total"]["requests"] for done in answers] == [0, 5]


# --- how they end ------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--help"], ["review", "report", "--format", "html"]])
def test_output_that_cannot_be_written_is_said_in_one_line(
    past: AgentProcess, words: list[str]
) -> None:
    more = [] if words == ["--help"] else ["--data-dir", str(past.data_dir)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "collector", *words, *more],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr == "groundwatch: the output: No space left on device\n"


def test_a_reader_that_goes_away_is_no_error(past: AgentProcess) -> None:
    words = ["review", "report", "--format", "html", "--data-dir", str(past.data_dir)]
    process = subprocess.Popen(
        [sys.executable, "-m", "collector", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait(60)


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["estimates"], "pydantic"),
        (["estimates"], "structlog"),
        (["estimates"], "prometheus_client"),
        (["demo"], "starlette"),
    ],
)
def test_ctrl_c_while_modules_are_loaded_ends_quietly(
    tmp_path: Path, words: list[str], module: str
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "collector", *words],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with process, process.stderr as told:
        for line in told:
            if line.rpartition("|")[2].strip().startswith(module):
                break
        process.send_signal(signal.SIGINT)
        said = [line for line in told if not line.startswith("import time:")]
    assert (process.returncode, said) == (130, [])


def test_the_version_is_told(tmp_path: Path) -> None:
    assert groundwatch(tmp_path, "--version").stdout.startswith("groundwatch 0.")


@pytest.mark.parametrize(
    "module", sorted(set(re.findall(r"python -m ((?:tests|dashboards)[\w.]+)", MAKEFILE)))
)
def test_help_of_a_script_is_printed_and_nothing_is_run(tmp_path: Path, module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")
