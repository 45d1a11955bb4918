"""`groundwatch send` says what it waits for and why it was refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.load import bodies
from tests.processes import AgentProcess, free_port

COMMAND = (sys.executable, "-m", "collector", "send")


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.pb"
    path.write_bytes(next(iter(bodies(1, 1))))
    return str(path)


def send(*words: str, environ: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words],
        capture_output=True,
        text=True,
        timeout=60,
        env=environ,
        check=False,
    )


def test_a_token_is_shown_to_an_agent_that_wants_one(tmp_path: Path, trace: str) -> None:
    config = {"receive": {"ingest_token_env": "GW_TOKEN"}}
    with AgentProcess(tmp_path, config, {"GW_TOKEN": "secret"}) as agent:
        to = (trace, "--endpoint", agent.urls["otlp_http"])
        without = send(*to)
        right = send(*to, "--token-env", "MINE", environ={"MINE": "secret"})
        unset = send(*to, "--token-env", "MINE", environ={})
    assert without.returncode == 1
    assert f"{trace}: refused with 401: " in without.stderr
    assert "token" in without.stderr.partition("401: ")[2]
    assert (right.returncode, right.stdout) == (0, "sent 1 bodies from 1 files\n")
    assert unset.returncode == 2
    assert unset.stderr == ("groundwatch: --token-env: the environment variable MINE is not set\n")


def test_it_says_at_once_that_it_waits_and_for_what(trace: str) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [*COMMAND, trace, "--endpoint", nobody], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    with process, process.stderr as told:
        said = told.readline()
        process.kill()
    assert said.startswith(f"waiting up to 60 s for {nobody}: ")
    assert "onnect" in said


@pytest.mark.parametrize("endpoint", ["127.0.0.1:4318", "ftp://host", "http://", "http://[::1"])
def test_what_is_no_address_is_refused_without_waiting(trace: str, endpoint: str) -> None:
    done = send(trace, "--endpoint", endpoint)
    assert done.returncode == 2
    assert done.stderr.startswith(f"groundwatch: --endpoint: '{endpoint}' must be such as http://")
