"""Fixtures shared by all tests, and what happens when optional data or services are absent.

A test that needs something optional carries the mark of its name. Where that is absent the test
is left out of the run, and both the header and the summary say so: a green run never hides it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client import CollectorRegistry

from collector.telemetry import Metrics
from tests.kafka_broker import LIBS, Broker, a_broker

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"


class Extra(NamedTuple):
    """Something tests can do without: the mark that asks for it and how to get it."""

    mark: str
    present: Callable[[], bool]
    absence: str


EXTRAS = (
    Extra(
        "shared",
        lambda: (SHARED / "traces").is_dir(),
        "the public traces and data sets are not there: put them into a folder named `shared` "
        "beside the project folder",
    ),
    Extra(
        "prometheus",
        lambda: shutil.which("prometheus") is not None,
        "no `prometheus` on the PATH: unpack a release of github.com/prometheus/prometheus and "
        "add its folder to the PATH",
    ),
    Extra(
        "grafana",
        lambda: (ROOT / ".venv-grafana" / "bin" / "python").exists(),
        "no environment of grafana-client: run `make setup-grafana`",
    ),
    Extra(
        "node",
        lambda: shutil.which("node") is not None,
        "no `node` on the PATH: install Node.js 20 or later",
    ),
    Extra(
        "chromium",
        lambda: Path("/usr/bin/chromium").exists(),
        "no /usr/bin/chromium: install the package `chromium` of Debian or Ubuntu",
    ),
    Extra(
        "faketime",
        lambda: shutil.which("faketime") is not None,
        "no `faketime` on the PATH: install the package `faketime` of Debian or Ubuntu",
    ),
    Extra(
        "apache_kafka",
        lambda: LIBS in os.environ,
        "a small broker stands in for Apache Kafka: run `make test-kafka` with Java and Maven",
    ),
)

LEFT_OUT = pytest.StashKey[dict[str, int]]()


def pytest_configure() -> None:
    """Let what tests start hear Ctrl-C: a shell has what it runs in the background ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> list[str]:
    """Name the optional things that are absent before any test runs."""
    return [
        f"tests marked {extra.mark!r} are left out: {extra.absence}"
        for extra in EXTRAS
        if not extra.present()
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests whose optional data or service is absent, and remember how many."""
    left_out: dict[str, int] = {}
    for extra in EXTRAS:
        if extra.present():
            continue
        without = [item for item in items if item.get_closest_marker(extra.mark)]
        if without:
            left_out[extra.mark] = len(without)
            items[:] = [item for item in items if item not in without]
            config.hook.pytest_deselected(items=without)
    config.stash[LEFT_OUT] = left_out


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that prints the summary, where several share the tests."""
    if (told := getattr(session.config, "workeroutput", None)) is not None:
        told["left_out"] = session.config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker left out; all of them leave out the same."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", {})


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say at the end what was not tested, and the cure."""
    left_out = config.stash.get(LEFT_OUT, {})
    for extra in EXTRAS:
        if count := left_out.get(extra.mark):
            terminalreporter.write_line(
                f"NOT RUN: {count} tests marked {extra.mark!r}; {extra.absence}", yellow=True
            )


@pytest.fixture
def metrics() -> Metrics:
    """A fresh catalogue on a registry of its own, so tests never see each other's counts."""
    return Metrics(CollectorRegistry())


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One Kafka broker for all tests that do not kill it; use topics of your own on it."""
    with a_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def shared() -> Path:
    """Folder of the public traces and data sets. Use it only under the `shared` mark."""
    return SHARED


@pytest.fixture
def free_port() -> Callable[[], int]:
    """Return a function that finds a loopback TCP port nobody listens on now.

    Prefer listening on port 0 where the program under test can: this one can be lost to another
    process between the look and the use.
    """

    def find() -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    return find
