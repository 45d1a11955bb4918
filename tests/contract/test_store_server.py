"""What holds for a store on a ClickHouse server: its migrations, its users, and the way to it."""

from __future__ import annotations

import asyncio
import re
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import pytest
from clickhouse_connect.driver.client import Client
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.errors import PermanentDependencyError, TransientDependencyError
from collector.model import Judgement, Signal
from collector.telemetry import Metrics
from sinks.clickhouse import ClickHouseStore
from sinks.connection import connect
from sinks.migrate import migrate_url, packaged, replicated
from tests.fakes.clickhouse_http import Answer, Fault, Served, serving
from tests.fakes.store import AT, stored


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    """A server. One process has one engine, so all others here are on the same folder."""
    with serving(folder) as served:
        yield served


@pytest.fixture
def server(served: Served) -> str:
    return served.url


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[Client]:
    client = connect(f"{served.url}/default", {})
    yield client
    client.close()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry())


@pytest.fixture
def database(client: Client) -> str:
    """The name of a new, empty database."""
    name = f"d{uuid4().hex}"
    client.command(f"CREATE DATABASE {name}")
    return name


async def opening(url: str, metrics: Metrics, config: StoreConfig | None = None) -> None:
    """Open a store and close it."""
    store = await ClickHouseStore.open(url, config or StoreConfig(), metrics)
    await store.close()


def tables(client: Client, database: str) -> list[str]:
    found = client.query(f"SELECT name FROM system.tables WHERE database = '{database}'")
    return [name for (name,) in found.result_rows]


# --- Migrations --------------------------------------------------------------------------


async def test_a_server_is_not_touched_until_somebody_migrates_it(
    server: str, client: Client, database: str, metrics: Metrics
) -> None:
    url = f"{server}/{database}"
    with pytest.raises(
        PermanentDependencyError, match=r"lack 0001_requests, .*groundwatch migrate"
    ):
        await opening(url, metrics)
    names = migrate_url(url, dry_run=True)
    assert tables(client, database) == []
    assert migrate_url(url) == names
    assert migrate_url(url) == []


async def test_opening_a_store_on_a_server_changes_nothing_and_keeping_ages_does(
    served: Served, client: Client, database: str, metrics: Metrics
) -> None:
    url = f"{served.url}/{database}"
    migrate_url(url)
    before = len(served.seen)
    store = await ClickHouseStore.open(url, StoreConfig(late_spans_hours=7), metrics)
    assert [sql for sql in served.seen[before:] if not re.match(r"SELECT|EXISTS", sql)] == []
    await store.keep_telemetry(7)
    await store.close()
    table = client.command(f"SHOW CREATE TABLE {database}.telemetry")
    assert "TTL toDateTime(stored_at) + toIntervalHour(7)" in str(table)


def test_a_changed_migration_is_refused_by_the_database_that_knows_it(
    server: str, client: Client, database: str
) -> None:
    migrate_url(f"{server}/{database}")
    client.command(
        f"INSERT INTO {database}.schema_migrations (name, checksum, applied_at) "
        "VALUES ('0002_judgements', 'another', now64(3) + 1)"
    )
    with pytest.raises(PermanentDependencyError, match="0002_judgements was changed after"):
        migrate_url(f"{server}/{database}")


def test_of_two_who_migrate_at_once_one_does_it_and_the_other_waits(
    served: Served, client: Client, database: str
) -> None:
    before = len(served.seen)
    together = threading.Barrier(2)

    def migrate() -> list[str]:
        together.wait(timeout=60)
        return migrate_url(f"{served.url}/{database}")

    with ThreadPoolExecutor(2) as pool:
        both = sorted(call.result() for call in [pool.submit(migrate) for _ in range(2)])
    assert both == [[], [migration.name for migration in packaged()]]
    made = [sql for sql in served.seen[before:] if "CREATE TABLE IF NOT EXISTS requests" in sql]
    assert len(made) == 1
    assert [name for name in tables(client, database) if "lock" in name] == []


def test_the_lock_of_one_who_died_is_passed_over_after_ten_minutes(
    server: str, client: Client, database: str
) -> None:
    now = int(str(client.command("SELECT toUnixTimestamp(now())")))
    for number, age in ((1, 100_000), (2, 601)):
        client.command(
            f"CREATE TABLE {database}.migration_lock_{number} (held UInt8) ENGINE = Memory "
            f"COMMENT '{now - age} a-host 1 {uuid4().hex}'"
        )
    assert migrate_url(f"{server}/{database}") == [migration.name for migration in packaged()]
    assert [name for name in tables(client, database) if "lock" in name] == []


def test_a_failed_migration_lets_go_of_the_lock(server: str, client: Client, database: str) -> None:
    client.command(f"CREATE VIEW {database}.judgements AS SELECT 1 AS one")
    with pytest.raises(PermanentDependencyError, match="migration 0009_pacing"):
        migrate_url(f"{server}/{database}")
    assert [name for name in tables(client, database) if "lock" in name] == []


# --- A cluster ---------------------------------------------------------------------------


async def test_on_a_cluster_every_table_and_the_lock_are_made_on_all_its_servers(
    folder: Path, client: Client, database: str, metrics: Metrics
) -> None:
    config = StoreConfig(url=f"http://127.0.0.1/{database}", cluster="the main")
    with serving(folder, cluster="the main") as served:
        url = f"{served.url}/{database}"
        names = migrate_url(url, cluster="the main")
        made = [sql for sql in served.seen if re.match(r"\s*(CREATE|DROP) TABLE", sql)]
        assert len(made) == 15  # thirteen tables, and the lock made and dropped
        assert [sql for sql in made if " ON CLUSTER `the main`" not in sql] == []
        lasting = [sql for sql in made if "migration_lock" not in sql]
        assert [
            sql for sql in lasting if "\nENGINE = ReplicatedReplacingMergeTree" not in sql
        ] == []
        assert migrate_url(url, cluster="the main") == []
        store = await ClickHouseStore.open(url, config, metrics)
        trace_id = uuid4().hex
        await store.write_requests([stored(trace_id)])
        assert list(await store.known([trace_id])) == [trace_id]
        await store.close()
    recorded = client.query(f"SELECT name, checksum FROM {database}.schema_migrations").result_rows
    checksums = {str(name): checksum for name, checksum in recorded}
    assert checksums == {migration.name: migration.checksum for migration in packaged()}
    assert sorted(checksums) == names


def test_every_statement_for_a_cluster_is_one_the_engine_reads(client: Client) -> None:
    name = "a`b\\'c"
    statements = [s for migration in packaged() for s in migration.statements]
    for statement in statements:
        told = replicated(statement, name)
        read = str(
            client.query("SELECT formatQuery({q:String})", parameters={"q": told}).result_rows[0][0]
        )
        if statement.startswith("CREATE"):
            assert " ON CLUSTER `a\\`b\\\\'c`" in read
            assert "\nENGINE = ReplicatedReplacingMergeTree" in read
        else:
            assert told == statement


async def test_a_cluster_that_cannot_hold_the_tables_is_refused(
    folder: Path, server: str, database: str, metrics: Metrics
) -> None:
    url = f"{server}/{database}"
    with pytest.raises(PermanentDependencyError, match=r"store\.cluster: .* no cluster main"):
        migrate_url(url, cluster="main")
    with pytest.raises(PermanentDependencyError, match=r"store\.cluster: .* no cluster main"):
        await opening(url, metrics, StoreConfig(url=url, cluster="main"))
    migrate_url(url)
    with (
        serving(folder, cluster="main", replicated=False) as served,
        pytest.raises(PermanentDependencyError, match="are not replicated"),
    ):
        migrate_url(f"{served.url}/{database}", cluster="main")


# --- Users who may only read -------------------------------------------------------------


async def test_reports_are_read_by_a_user_who_may_only_read(
    folder: Path, server: str, database: str, metrics: Metrics
) -> None:
    migrate_url(f"{server}/{database}")
    with serving(folder, readonly=2) as served:
        store = await ClickHouseStore.open(f"{served.url}/{database}", StoreConfig(), metrics)
        assert await store.rows("judgements", {}) == []
        with pytest.raises(PermanentDependencyError, match=r"164 READONLY; .* may only read"):
            await store.write_requests([stored(uuid4().hex)])
        await store.close()


async def test_a_user_who_may_not_even_change_settings_is_told_so(
    folder: Path, server: str, database: str, metrics: Metrics
) -> None:
    migrate_url(f"{server}/{database}")
    with (
        serving(folder, readonly=1) as served,
        pytest.raises(PermanentDependencyError, match=r"may not set \w+; give it readonly = 2"),
    ):
        await opening(f"{served.url}/{database}", metrics)


# --- The way to the server ---------------------------------------------------------------


def answer_lost(apply: Callable[[], Answer]) -> Answer | None:
    apply()
    return None


def server_died(apply: Callable[[], Answer]) -> Answer | None:
    return None


def behind_a_proxy(status: int, apply: Callable[[], Answer]) -> Answer | None:
    return status, b"<html><h1>upstream is not there</h1></html>", {"Content-Type": "text/html"}


def timed_out_behind_a_proxy(apply: Callable[[], Answer]) -> Answer | None:
    apply()
    return 504, b"<html><h1>Gateway Time-out</h1></html>", {"Content-Type": "text/html"}


def refused(code: int, name: str, apply: Callable[[], Answer]) -> Answer | None:
    body = f"Code: {code}. DB::Exception: no. ({name}) (version 26.9.2.1)"
    return 500, body.encode(), {"X-ClickHouse-Exception-Code": str(code)}


def applied_without_quorum(apply: Callable[[], Answer]) -> Answer | None:
    apply()
    return refused(319, "UNKNOWN_STATUS_OF_INSERT", apply)


FAULTS: list[Fault] = [
    answer_lost,
    server_died,
    partial(behind_a_proxy, 502),
    partial(behind_a_proxy, 503),
    partial(behind_a_proxy, 429),
    timed_out_behind_a_proxy,
    partial(refused, 252, "TOO_MANY_PARTS"),
    partial(refused, 236, "ABORTED"),
    partial(refused, 242, "TABLE_IS_READ_ONLY"),
    partial(refused, 286, "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE"),
    applied_without_quorum,
]


async def test_no_fault_on_the_way_loses_a_row_or_doubles_one(
    served: Served, client: Client, database: str, metrics: Metrics
) -> None:
    url = f"{served.url}/{database}"
    migrate_url(url)
    store = await ClickHouseStore.open(url, StoreConfig(), metrics)
    ids = [uuid4().hex for _ in range(6)]
    rows = [
        stored(trace_id, started_at=AT - timedelta(weeks=n % 2), telemetry=b"spans")
        for n, trace_id in enumerate(ids)
    ]
    judgements = [
        Judgement(trace_id=i, scorer="s", fingerprint="f", status="judged", score=1.0, judged_at=AT)
        for i in ids
    ]
    signals = [Signal(signal_id=i, kind="thumbs_up", occurred_at=AT, received_at=AT) for i in ids]
    for write in (
        partial(store.write_requests, rows),
        partial(store.write_judgements, judgements, dict.fromkeys(ids, AT)),
        partial(store.write_signals, signals),
    ):
        served.faults.extend(FAULTS)
        while served.faults:  # the client itself tries once more where it was cut off
            with suppress(TransientDependencyError):
                await write()
        await write()
    assert sorted(await store.known(ids)) == sorted(ids)
    assert sorted(await store.judged_versions(ids, "f")) == sorted(ids)
    assert sorted(s.signal_id for s in await store.signals_with(ids)) == sorted(ids)
    day = {"since": AT - timedelta(weeks=2), "until": AT + timedelta(weeks=1)}
    accounted = await store.rows(
        "accounting", {**day, "segment": "", "fingerprint": "f", "scorer": "s"}
    )
    assert sum(row["requests"] for row in accounted) == len(ids)
    await store.close()


async def test_an_answer_of_a_proxy_that_will_not_change_is_for_a_person(
    served: Served, database: str, metrics: Metrics
) -> None:
    url = f"{served.url}/{database}"
    migrate_url(url)
    store = await ClickHouseStore.open(url, StoreConfig(), metrics)
    for status in (403, 404, 413):
        served.faults.append(partial(behind_a_proxy, status))
        with pytest.raises(PermanentDependencyError, match=rf"status {status} .* a proxy"):
            await store.write_signals(
                [Signal(signal_id="s", kind="thumbs_up", occurred_at=AT, received_at=AT)]
            )
    await store.close()


async def test_a_server_that_does_not_answer_is_a_transient_failure(metrics: Metrics) -> None:
    with pytest.raises(TransientDependencyError) as caught:
        await opening("http://user:s3cret@127.0.0.1:9/db", metrics)
    assert "127.0.0.1:9 failed: Connection refused" in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_a_name_that_is_not_known_now_is_a_transient_failure(metrics: Metrics) -> None:
    with pytest.raises(TransientDependencyError, match=r"nowhere\.invalid:8123 failed: .*[Nn]ame"):
        await opening("http://nowhere.invalid/db", metrics)


class _Greeting(BaseHTTPRequestHandler):
    """Some web server."""

    answer: ClassVar[bytes] = b"<html>It works!</html>"

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_a_certificate_that_is_not_accepted_is_for_a_person_who_can_name_its_authority(
    tmp_path: Path, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    named = ("-subj", "/CN=a", "-addext", "subjectAltName=IP:127.0.0.1")
    files = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run([*command, *named, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Greeting) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"https://127.0.0.1:{server.server_address[1]}/db"
        try:
            with pytest.raises(
                PermanentDependencyError, match=r"certificate is not accepted: self.signed .*CERT"
            ):
                asyncio.run(opening(url, metrics))
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            with pytest.raises(TransientDependencyError, match="OperationalError"):
                asyncio.run(opening(url, metrics))  # this server speaks, if not what is expected
        finally:
            server.shutdown()
            thread.join()


async def test_an_error_of_a_server_says_what_to_do_and_quotes_no_text(
    server: str, metrics: Metrics
) -> None:
    with pytest.raises(PermanentDependencyError, match=r"81 UNKNOWN_DATABASE; .* create it"):
        await opening(f"{server}/absent", metrics)
