"""The examples for an OpenTelemetry Collector and for Docker Compose fit the agent and each other.

`make test-collector` runs the Collector's; nothing here starts a container.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from argon2 import PasswordHasher
from ruamel.yaml import YAML
from typer.testing import CliRunner

from collector.cli import app
from collector.config import Config, KafkaSourceConfig, load
from tests.conftest import ROOT

EXAMPLES = ROOT / "helm" / "compose"


def read(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = read(EXAMPLES / "compose.yaml")["services"]
    return found


@pytest.fixture(scope="module")
def config() -> Config:
    return load(EXAMPLES / "groundwatch.yaml", {"CLICKHOUSE_PASSWORD": "x"}).config


def source_of(config: Config) -> KafkaSourceConfig:
    assert config.source.kafka is not None
    return config.source.kafka


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """Return what is mounted where, by its place in the container."""
    parts = [mount.split(":") for mount in service.get("volumes", [])]
    return {place: source for source, place, *_ in parts}


def published(service: dict[str, Any]) -> dict[int, int]:
    """Return the ports of this machine by those of the container; all on loopback."""
    ports = [port.split(":") for port in service["ports"]]
    assert {host for host, _, _ in ports} == {"127.0.0.1"}
    return {int(inside): int(outside) for _, outside, inside in ports}


def port(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_the_collector_writes_the_topics_that_an_agent_reads(config: Config) -> None:
    kafka = read(EXAMPLES / "collector" / "collector.yaml")["exporters"]["kafka"]
    for source in (KafkaSourceConfig(brokers=["k:9092"]), source_of(config)):
        assert (kafka["traces"]["topic"], kafka["logs"]["topic"]) == (source.traces, source.logs)
    assert {kafka[kind]["encoding"] for kind in ("traces", "logs")} <= {"otlp_proto", "otlp_json"}


def test_records_have_keys_where_the_agent_is_told_so(
    services: dict[str, Any], config: Config
) -> None:
    keyed = read(EXAMPLES / "collector" / "keyed.yaml")["exporters"]["kafka"]
    assert keyed == {"partition_traces_by_id": True, "partition_logs_by_trace_id": True}
    names = [option.rpartition("/")[2] for option in services["collector"]["command"]]
    assert names == ["collector.yaml", "keyed.yaml"]
    assert source_of(config).keyed


def test_all_that_is_mounted_is_there_or_written_by_the_command_named(
    services: dict[str, Any], tmp_path: Path
) -> None:
    named = re.search(
        r"groundwatch dashboards files (helm/compose/\w+)", (EXAMPLES / "compose.yaml").read_text()
    )
    assert named is not None
    written = tmp_path / named[1]
    assert CliRunner().invoke(app, ["dashboards", "files", str(written)]).exit_code == 0
    volumes = read(EXAMPLES / "compose.yaml")["volumes"]
    for service in services.values():
        for source in mounts(service).values():
            if source.startswith("./grafana/"):
                assert (tmp_path / "helm" / "compose" / source).exists(), source
            elif source.startswith("./"):
                assert (EXAMPLES / source).exists(), source
            else:
                assert source in volumes
    provider = read(written / "provisioning" / "dashboards" / "groundwatch.yaml")
    assert provider["providers"][0]["options"]["path"] in mounts(services["grafana"])


def test_addresses_and_ports_agree(services: dict[str, Any], config: Config) -> None:
    collector = read(EXAMPLES / "collector" / "collector.yaml")["receivers"]["otlp"]["protocols"]
    assert set(published(services["collector"])) == {
        port(protocol["endpoint"]) for protocol in collector.values()
    }
    of_the_agent = published(services["agent"])
    assert set(of_the_agent) == {port(config.listen.otlp_http), port(config.listen.review)}
    signals = f"http://127.0.0.1:{of_the_agent[port(config.listen.otlp_http)]}/v1/signals"
    assert signals in (EXAMPLES / "compose.yaml").read_text()
    (job,) = read(EXAMPLES / "prometheus.yaml")["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"agent:{port(config.listen.metrics)}"]}]
    broker = services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    brokers = {broker.removeprefix("PLAINTEXT://")}
    assert config.journal.kafka is not None
    assert {services["collector"]["environment"]["KAFKA_BROKER"]} == brokers
    assert set(config.journal.kafka.brokers) == set(source_of(config).brokers) == brokers


def test_agent_and_grafana_find_the_database(services: dict[str, Any], config: Config) -> None:
    url = urlsplit(config.store_url)
    server = services["clickhouse"]["environment"]
    assert (url.hostname, url.username) == ("clickhouse", server["CLICKHOUSE_USER"])
    assert url.path == f"/{server['CLICKHOUSE_DB']}"
    sources = {s["uid"]: s for s in read(EXAMPLES / "grafana-sources.yaml")["datasources"]}
    assert set(sources) == {"groundwatch-prometheus", "groundwatch-clickhouse"}
    prometheus = urlsplit(sources["groundwatch-prometheus"]["url"])
    assert (prometheus.hostname, prometheus.port) == ("prometheus", 9090)
    clickhouse = sources["groundwatch-clickhouse"]["jsonData"]
    assert (clickhouse["host"], clickhouse["port"]) == (url.hostname, url.port)
    assert (clickhouse["username"], clickhouse["defaultDatabase"]) == (url.username, url.path[1:])


def test_the_reviewer_gets_in_with_the_name_and_password_that_are_told(config: Config) -> None:
    told = (EXAMPLES / "compose.yaml").read_text().replace("\n# ", " ")
    login = re.search(r"(http://[\d.:]+) \((\w+), (\w+)\)", told)
    assert login is not None
    assert login[1] == config.review.public_url
    kept = config.review.users[login[2]].get_secret_value()
    assert PasswordHasher().verify(kept, login[3])


def test_images_have_a_version_and_that_of_the_collector_is_the_one_tried(
    services: dict[str, Any],
) -> None:
    images = {name: service["image"] for name, service in services.items()}
    own = {name for name, service in services.items() if "build" in service}
    assert own == {"agent", "migrate"}
    for name in images.keys() - own:
        assert re.fullmatch(r"[\w./-]+:v?\d+(\.\d+)+", images[name]), name
    built = read(ROOT / "tests" / "otelcol-builder.yaml")
    tried = {part["gomod"].rpartition(" v")[2] for part in built["receivers"] + built["exporters"]}
    assert {images["collector"].rpartition(":")[2]} == tried


@pytest.mark.prometheus
def test_prometheus_takes_its_configuration() -> None:
    done = subprocess.run(
        ["promtool", "check", "config", "--syntax-only", EXAMPLES / "prometheus.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
