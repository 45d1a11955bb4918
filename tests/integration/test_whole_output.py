"""What a command prints arrives whole, whatever interrupts its writing."""

from __future__ import annotations

import subprocess
import sys
import time

LENGTH = 3_000_000
SCRIPT = f"""
import signal
from collector.cli import buffer_output
buffer_output()
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
print("x" * {LENGTH})
signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_signals_cut_nothing_off_in_an_unbuffered_process() -> None:
    command = [sys.executable, "-u", "-c", SCRIPT]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        time.sleep(1)  # the pipe is full, and the write under way when the signals come
        read = writer.stdout.read()
        assert writer.wait(30) == 0
    assert len(read) == LENGTH + 1
