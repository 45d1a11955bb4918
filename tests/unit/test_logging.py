"""The log serves the work, never the other way round."""

from __future__ import annotations

import errno
import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from collector.telemetry import configure_logging


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = before, level


def test_a_log_that_cannot_be_written_stops_nobody() -> None:
    configure_logging("info", FullDisk())
    structlog.get_logger().error("part_failed", error="OSError")
    logging.getLogger("library").warning("something")


def test_a_log_that_can_be_written_is() -> None:
    stream = io.StringIO()
    configure_logging("info", stream)
    structlog.get_logger().info("started", port=4318)
    assert '"event": "started"' in stream.getvalue()
    assert '"port": 4318' in stream.getvalue()


def test_a_library_says_what_happened_and_where_but_no_value() -> None:
    stream = io.StringIO()
    configure_logging("info", stream)
    library = logging.getLogger("library.pool")
    library.warning("retrying %s after %d", "my secret question", 2)
    try:
        raise ValueError("my secret question")
    except ValueError as err:
        library.error("never retrieved\nfuture: %r" % err, exc_info=True)  # noqa: UP031
    library.debug("connected")
    retrying, never = map(json.loads, stream.getvalue().splitlines())
    assert (retrying["event"], retrying["level"]) == ("library", "warning")
    assert (retrying["logger"], retrying["said"]) == ("library.pool", "retrying %s after %d")
    assert (never["said"], never["error"]) == ("never retrieved", "ValueError")
    assert never["at"].startswith("test_logging.py:")
    assert "secret" not in stream.getvalue()
