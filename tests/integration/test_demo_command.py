"""`groundwatch demo` as a person runs it: it sums up, it stops when told to, its data stay."""

from __future__ import annotations

import json
import shlex
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-m", "collector", "demo")


def test_a_run_sums_up_what_it_saw_and_nothing_else_on_stdout(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--once", "--json", "--data-dir", tmp_path / "demo"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["accounting_ok"]
    assert summary["judged"] > 100
    assert (
        summary["estimate"]["low"] < summary["estimate"]["estimate"] < summary["estimate"]["high"]
    )
    for kind, count in summary["planted"].items():
        assert count["in_top"] == count["planted"] > 0, kind
    # Texts of users lie in there.
    assert stat.S_IMODE((tmp_path / "demo").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "moment", ["planted among", "judged,", "reading the worst", "Traffic goes"]
)
def test_it_ends_cleanly_at_once_whenever_it_is_told_to(tmp_path: Path, moment: str) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--data-dir", tmp_path / "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    with process, process.stdout as shown:
        said = ""
        for line in shown:
            said += line
            if moment in line:
                break
        process.send_signal(signal.SIGINT)
        told_at = time.monotonic()
        said += shown.read()
        assert process.wait(30) == 0, said
        assert time.monotonic() - told_at < 10
        assert "Traceback" not in said


def test_the_commands_it_names_read_its_data_afterwards(tmp_path: Path) -> None:
    shown = subprocess.run(
        [*COMMAND, "--once", "--data-dir", "my demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    ).stdout
    lines = [line.strip() for line in shown.splitlines() if "--data-dir" in line]
    assert [line.partition(" --data-dir")[0] for line in lines] == [
        "python -m collector estimates",
        "python -m collector review report",
        "python -m collector golden candidates",
    ]
    for line in lines:
        words = shlex.split(line)[1:]
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert len(done.stdout) > 500
