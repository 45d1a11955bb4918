"""What every store must do, and what the real one does besides."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec
import pytest
from clickhouse_connect.driver.client import Client
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.errors import PermanentDependencyError, TransientDependencyError
from collector.model import (
    Claim,
    Document,
    Judgement,
    RagRequest,
    RequestError,
    Signal,
    Stage,
    StoredRequest,
    Usage,
)
from collector.ports import Fragment, Store
from collector.telemetry import Metrics
from sinks.clickhouse import ClickHouseStore
from sinks.connection import connect
from sinks.migrate import migrate_url
from tests.fakes.clickhouse_server import a_database, a_server
from tests.fakes.store import AT, MemoryStore, decision, stored

ROOT = Path(__file__).parents[2]


def fresh() -> str:
    return uuid4().hex


def judgement(trace_id: str, fingerprint: str, version: int, **changes: object) -> Judgement:
    plain = Judgement(
        trace_id=trace_id,
        scorer="faithfulness",
        fingerprint=fingerprint,
        status="judged",
        score=1.0,
        request_version=version,
        judged_at=AT,
    )
    return msgspec.structs.replace(plain, **changes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def metrics() -> Metrics:
    return Metrics(CollectorRegistry())


class Real(NamedTuple):
    """A store on the real engine, and the URL of its tables."""

    store: ClickHouseStore
    url: str


@pytest.fixture(scope="module")
def embedded(folder: Path, metrics: Metrics) -> Iterator[Real]:
    """One folder per process, so one store for the module."""
    url = f"chdb://{folder}"
    store = asyncio.run(ClickHouseStore.open(url, StoreConfig(), metrics))
    yield Real(store, url)
    asyncio.run(store.close())


@pytest.fixture(scope="module")
def served(embedded: Real, folder: Path, metrics: Metrics) -> Iterator[Real]:
    """A database of a server."""
    with a_server(folder) as server, a_database(server) as config:
        url = config.url or ""
        migrate_url(url, cluster=config.cluster)
        store = asyncio.run(ClickHouseStore.open(url, config, metrics))
        yield Real(store, url)
        asyncio.run(store.close())


@pytest.fixture(params=["embedded", "served"])
def real(request: pytest.FixtureRequest) -> Real:
    found: Real = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def clickhouse(real: Real) -> ClickHouseStore:
    return real.store


@pytest.fixture
def client(real: Real) -> Iterator[Client]:
    """A look at the tables from beside the store."""
    client = connect(real.url, {})
    yield client
    client.close()


@pytest.fixture(params=["memory", "embedded", "served"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return MemoryStore()
    real: Real = request.getfixturevalue(request.param)
    return real.store


FULL = RagRequest(
    trace_id="",
    service="helpdesk",
    conventions=["openinference", "gen_ai"],
    started_at=datetime(2026, 11, 4, 12, 0, 0, 123456, tzinfo=UTC),
    latency_ms=1834.25,
    ttft_ms=310.5,
    conversation_id="conversation-7",
    user_id="user-1",
    segment="multi_page",
    question="Ist SSO im Pro-Tarif enthalten? 🦉 'quoted' \\ {x:String}",
    answer="Yes.\n\tFor 2 USD.",
    documents=[
        Document(
            rank=1,
            document_id="212",
            chunk_id="212-3",
            source="page-212",
            title="SSO",
            text="SSO is available on Pro",
            score=0.75,
            score_kind="similarity",
            cited=True,
        ),
        Document(rank=2, score_kind="distance", cited=False),
        Document(rank=3),
    ],
    stages=[
        Stage(kind="retriever", name="search", query="sso pro", latency_ms=40.0, documents=3),
        Stage(kind="llm", error="TimeoutError"),
    ],
    retriever_stages=1,
    reranker_stages=0,
    llm_calls=2,
    citations=[1, 7],
    model="model-a",
    provider="provider-a",
    input_tokens=1200,
    output_tokens=40,
    cached_tokens=0,
    cost_usd=0.00123,
    status="error",
    error=RequestError(stage="llm", type="TimeoutError", message="took too long"),
    flags=["truncated", "partial"],
    response_ids=["r-1", "r-2"],
    message_id="m-1",
)


# --- Every store -------------------------------------------------------------------------


async def test_a_request_reads_back_as_it_was_written(store: Store) -> None:
    full = StoredRequest(
        request=msgspec.structs.replace(FULL, trace_id=fresh()),
        version=12,
        decision=decision(sampled=False, probability=0.125, uniform=0.9, stratum="rare"),
        lexical_score=0.625,
    )
    bare = stored(fresh(), started_at=None, ineligible="no_answer")
    await store.write_requests([full, bare])
    found = await store.requests([full.request.trace_id, bare.request.trace_id])
    assert found == {full.request.trace_id: full, bare.request.trace_id: bare}


async def test_a_trace_that_was_never_written_is_not_in_the_answer(store: Store) -> None:
    absent = [fresh(), "", "not a trace id"]
    assert await store.known(absent) == {}
    assert await store.requests(absent) == {}
    assert await store.judged_versions(absent, "f") == {}
    assert await store.known([]) == {}


async def test_known_gives_version_decision_and_raw_spans_of_the_newest_version(
    store: Store,
) -> None:
    trace_id = fresh()
    fixed = decision(sampled=False, probability=0.5)
    spans = b"\x00\xff\xfe raw, not text"
    await store.write_requests([stored(trace_id, 3, decided=fixed, telemetry=b"first")])
    await store.write_requests([stored(trace_id, 9, decided=fixed, telemetry=spans)])
    known = (await store.known([trace_id]))[trace_id]
    assert (known.version, known.decision, known.telemetry) == (9, fixed, spans)


async def test_a_lower_version_that_comes_later_changes_nothing(store: Store) -> None:
    trace_id = fresh()
    await store.write_requests([stored(trace_id, 5, question="new", telemetry=b"new")])
    await store.write_requests([stored(trace_id, 2, question="old", telemetry=b"old")])
    assert (await store.requests([trace_id]))[trace_id].request.question == "new"
    assert (await store.known([trace_id]))[trace_id].telemetry == b"new"


async def test_of_two_versions_in_one_write_the_higher_is_seen(store: Store) -> None:
    trace_id = fresh()
    await store.write_requests(
        [stored(trace_id, 8, question="new"), stored(trace_id, 7, question="old")]
    )
    assert (await store.requests([trace_id]))[trace_id].version == 8


async def test_a_repeated_write_is_seen_once(store: Store) -> None:
    rows = [stored(fresh(), telemetry=b"spans") for _ in range(3)]
    for _ in range(3):
        await store.write_requests(rows)
    found = await store.known([row.request.trace_id for row in rows])
    assert {known.version for known in found.values()} == {1}
    assert len(found) == 3


async def test_many_traces_are_found_in_one_call(store: Store) -> None:
    rows = [stored(fresh(), question=str(number)) for number in range(1100)]
    await store.write_requests(rows)
    ids = [row.request.trace_id for row in rows]
    assert len(await store.known([*ids, fresh()])) == 1100
    found = await store.requests(ids)
    assert [found[trace_id].request.question for trace_id in ids] == [str(n) for n in range(1100)]


async def test_judged_and_failed_requests_are_told_by_the_version_that_was_judged(
    store: Store,
) -> None:
    judged, failed, other = fresh(), fresh(), fresh()
    await store.write_judgements(
        [
            judgement(judged, "f1", 4),
            judgement(failed, "f1", 6, status="failed", score=None, reason="timeout"),
            judgement(other, "f2", 1),
        ],
        {judged: AT, failed: AT, other: AT},
    )
    assert await store.judged_versions([judged, failed, other], "f1") == {judged: 4, failed: 6}


async def test_a_judgement_of_a_newer_version_replaces_an_older_one_in_any_order(
    store: Store,
) -> None:
    trace_id = fresh()
    for version in (2, 5, 3):
        await store.write_judgements([judgement(trace_id, "f1", version)], {trace_id: AT})
    assert await store.judged_versions([trace_id], "f1") == {trace_id: 5}


async def test_writing_nothing_is_allowed(store: Store) -> None:
    await store.write_requests([])
    await store.write_judgements([], {})
    await store.write_signals([])


async def test_a_failed_write_can_be_repeated() -> None:
    store = MemoryStore()
    trace_id = fresh()
    store.fail_next(2, TransientDependencyError("store: down"))
    for _ in range(2):
        with pytest.raises(TransientDependencyError):
            await store.write_requests([stored(trace_id)])
        assert await store.known([trace_id]) == {}
    await store.write_requests([stored(trace_id)])
    assert trace_id in await store.known([trace_id])


async def test_a_write_may_fail_after_it_took_effect() -> None:
    store = MemoryStore()
    trace_id = fresh()
    store.fail_next(1, TransientDependencyError("store: in doubt"), after_writing=True)
    with pytest.raises(TransientDependencyError):
        await store.write_requests([stored(trace_id)])
    assert trace_id in await store.known([trace_id])


# --- The real store ----------------------------------------------------------------------


async def test_text_that_no_column_holds_does_not_fail_the_batch(
    clickhouse: ClickHouseStore,
) -> None:
    trace_id = fresh()
    await clickhouse.write_requests([stored(trace_id, question="half \ud83d NUL \x00 end")])
    request = (await clickhouse.requests([trace_id]))[trace_id].request
    assert request.question == "half \ufffd NUL \ufffd end"


async def test_a_trace_id_that_had_to_be_cleaned_is_found_by_the_id_as_given(
    clickhouse: ClickHouseStore,
) -> None:
    odd = fresh() + "\ud800"
    await clickhouse.write_requests([stored(odd)])
    assert list(await clickhouse.known([odd])) == [odd]


async def test_numbers_out_of_range_do_not_fail_the_batch(clickhouse: ClickHouseStore) -> None:
    trace_id = fresh()
    await clickhouse.write_requests(
        [stored(trace_id, input_tokens=10**30, latency_ms=float("nan"), citations=[-(10**30)])]
    )
    request = (await clickhouse.requests([trace_id]))[trace_id].request
    assert (request.input_tokens, request.latency_ms) == (2**63 - 1, None)
    assert request.citations == [-(2**63)]


async def test_a_late_version_stays_in_the_week_of_the_first(
    clickhouse: ClickHouseStore, client: Client
) -> None:
    trace_id = fresh()
    monday = datetime(2026, 11, 2, 0, 0, 1, tzinfo=UTC)
    await clickhouse.write_requests([stored(trace_id, 1, started_at=monday, segment="a")])
    sunday = monday - timedelta(seconds=5)
    await clickhouse.write_requests([stored(trace_id, 2, started_at=sunday, segment="b")])
    await clickhouse.write_judgements([judgement(trace_id, "f1", 2)], {trace_id: sunday})
    assert (await clickhouse.requests([trace_id]))[trace_id].request.started_at == sunday
    for table in ("requests", "judgements"):
        weeks = client.query(
            f"SELECT DISTINCT toString(toMonday(filed_at)) FROM {table} "
            "WHERE trace_id = {trace_id:String}",
            parameters={"trace_id": trace_id},
        )
        assert weeks.result_rows == [("2026-11-02",)]


async def test_a_start_that_cannot_be_true_is_filed_when_it_came(
    clickhouse: ClickHouseStore, client: Client
) -> None:
    broken = [datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)]
    rows = [stored(fresh(), started_at=start) for start in broken]
    await clickhouse.write_requests(rows)
    ids = [row.request.trace_id for row in rows]
    weeks = client.query(
        "SELECT DISTINCT toString(toMonday(filed_at)) FROM requests "
        "WHERE trace_id IN {ids:Array(String)}",
        parameters={"ids": ids},
    )
    assert weeks.result_rows == [("2026-11-02",)]
    found = await clickhouse.requests(ids)
    assert [found[trace_id].request.started_at for trace_id in ids] == broken


async def test_each_insert_touches_one_partition_and_has_a_batch_id(
    clickhouse: ClickHouseStore, client: Client
) -> None:
    rows = [stored(fresh(), started_at=AT - timedelta(weeks=n)) for n in range(3) for _ in range(4)]
    await clickhouse.write_requests(rows)
    batches = client.query(
        "SELECT count(), uniqExact(toMonday(filed_at)) FROM requests "
        "WHERE trace_id IN {ids:Array(String)} AND batch_id != '' GROUP BY batch_id",
        parameters={"ids": [row.request.trace_id for row in rows]},
    )
    assert batches.result_rows == [(4, 1)] * 3


def test_tables_are_synced_to_disk(client: Client) -> None:
    tables = client.query(
        "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase()"
    )
    assert {row[0] for row in tables.result_rows} == {
        "requests",
        "telemetry",
        "fragments",
        "judgements",
        "signals",
        "labels",
        "candidates",
        "eval_runs",
        "eval_rows",
        "spend",
        "schema_migrations",
        "states",
        "calibrations",
    }
    for name, sql in tables.result_rows:
        assert "fsync_after_insert = 1" in sql, name
        assert "fsync_part_directory = 1" in sql, name


def test_the_embedded_engine_is_bounded(embedded: Real) -> None:
    client = connect(embedded.url, {})
    limits = client.query(
        "SELECT name, value FROM system.server_settings WHERE name IN "
        "('max_server_memory_usage', 'mark_cache_size', 'primary_index_cache_size')"
    )
    client.close()
    assert dict(limits.result_rows) == {  # type: ignore[arg-type]
        "max_server_memory_usage": "2000000000",
        "mark_cache_size": "134217728",
        "primary_index_cache_size": "134217728",
    }


async def test_raw_spans_expire_after_the_configured_hours_and_the_request_stays(
    clickhouse: ClickHouseStore, client: Client
) -> None:
    trace_id = fresh()
    await clickhouse.write_requests([stored(trace_id, telemetry=b"spans")])
    client.command(
        "INSERT INTO telemetry (filed_at, trace_id, version, batch_id, stored_at, body) "
        "SELECT filed_at, trace_id, version, batch_id, now64(3, 'UTC') - INTERVAL 49 HOUR, body "
        f"FROM telemetry WHERE trace_id = '{trace_id}'"
    )
    client.command(f"DELETE FROM telemetry WHERE trace_id = '{trace_id}' AND stored_at > now()-60")
    client.command("OPTIMIZE TABLE telemetry FINAL")
    known = (await clickhouse.known([trace_id]))[trace_id]
    assert (known.version, known.telemetry) == (1, b"")


async def test_the_fullest_fragment_of_a_trace_is_found(store: Store) -> None:
    first, other = fresh(), fresh()
    spans = b"\x00\xff\xfe raw, not text"
    await store.keep_fragments([Fragment(first, 4, spans), Fragment(other, 2, b"")])
    await store.keep_fragments([Fragment(first, 2, b"less")])
    await store.keep_fragments([])
    assert await store.fragments([first, fresh(), other]) == {first: spans, other: b""}
    assert await store.fragments([]) == {}


async def test_fragments_expire_with_the_raw_spans(
    clickhouse: ClickHouseStore, client: Client
) -> None:
    trace_id = fresh()
    client.command(
        "INSERT INTO fragments (trace_id, version, stored_at, body) "
        f"VALUES ('{trace_id}', 1, now64(3, 'UTC') - INTERVAL 49 HOUR, 'spans')"
    )
    client.command("OPTIMIZE TABLE fragments FINAL")
    assert await clickhouse.fragments([trace_id]) == {}


async def test_writes_are_counted_by_table(clickhouse: ClickHouseStore, metrics: Metrics) -> None:
    def written() -> float:
        name, labels = "groundwatch_store_rows_written_total", {"table": "signals"}
        return metrics.registry.get_sample_value(name, labels) or 0.0

    before = written()
    rows = [
        Signal(signal_id=fresh(), kind="thumbs_up", occurred_at=AT, received_at=AT)
        for _ in range(2)
    ]
    await clickhouse.write_signals(rows)
    assert written() - before == 2


async def test_a_judgement_without_a_usable_score_is_stored_as_failed(
    clickhouse: ClickHouseStore, client: Client
) -> None:
    scores = [None, float("nan"), 1.5, 0.5]
    rows = [judgement(fresh(), "f1", 1, score=score) for score in scores]
    await clickhouse.write_judgements(rows, {row.trace_id: AT for row in rows})
    found = client.query(
        "SELECT trace_id, status, reason, score FROM judgements "
        "WHERE trace_id IN {ids:Array(String)}",
        parameters={"ids": [row.trace_id for row in rows]},
    )
    by_id = {row[0]: tuple(row[1:]) for row in found.result_rows}
    assert [by_id[row.trace_id] for row in rows] == [
        ("failed", "internal", None),
        ("failed", "internal", None),
        ("failed", "internal", None),
        ("judged", None, 0.5),
    ]


async def test_claims_and_usage_of_a_judgement_are_stored(
    clickhouse: ClickHouseStore, client: Client
) -> None:
    trace_id = fresh()
    row = judgement(
        trace_id,
        "f1",
        1,
        score=0.5,
        claims=[
            Claim(text="SSO is on Pro", verdict="SUPPORTED", quote="SSO is", document_rank=1),
            Claim(text="at no cost", verdict="NOT_FOUND", note="quote_unverified"),
        ],
        engine="openai",
        model="model-a",
        usage=Usage(input_tokens=900, output_tokens=80, cost_usd=0.01, calls=2),
        raw_reply="{}",
    )
    await clickhouse.write_judgements([row], {trace_id: AT})
    found = client.query(
        "SELECT claims.text, claims.verdict, claims.quote, claims.document_rank, claims.note, "
        f"input_tokens, cost_usd, calls FROM judgements WHERE trace_id = '{trace_id}'"
    )
    assert found.result_rows == [
        (
            ["SSO is on Pro", "at no cost"],
            ["SUPPORTED", "NOT_FOUND"],
            ["SSO is", None],
            [1, None],
            [None, "quote_unverified"],
            900,
            0.01,
            2,
        )
    ]


async def test_weeks_that_have_ended_are_dropped_and_the_current_one_is_kept(
    clickhouse: ClickHouseStore,
) -> None:
    wednesday = datetime(2025, 3, 5, tzinfo=UTC)
    days = [wednesday - timedelta(weeks=1), wednesday, wednesday + timedelta(weeks=1)]
    rows = [stored(fresh(), started_at=day, decided=decision(decided_at=day)) for day in days]
    await clickhouse.write_requests(rows)
    friday = datetime(2025, 3, 14, tzinfo=UTC)
    assert await clickhouse.drop_before(friday) == ["requests 2025-02-24", "requests 2025-03-03"]
    assert await clickhouse.drop_before(friday) == []
    ids = [row.request.trace_id for row in rows]
    assert list(await clickhouse.requests(ids)) == [ids[-1]]


async def test_calls_run_beside_each_other(clickhouse: ClickHouseStore) -> None:
    rows = [stored(fresh()) for _ in range(8)]
    await asyncio.gather(*(clickhouse.write_requests([row]) for row in rows))
    found = await asyncio.gather(*(clickhouse.known([row.request.trace_id]) for row in rows))
    assert [len(known) for known in found] == [1] * 8


async def test_a_query_that_is_not_there_or_lacks_a_parameter_is_named(
    clickhouse: ClickHouseStore,
) -> None:
    with pytest.raises(PermanentDependencyError, match="no query named nonsense; there are acc"):
        await clickhouse.rows("nonsense", {})
    with pytest.raises(PermanentDependencyError, match="latest_fingerprint needs until"):
        await clickhouse.rows("latest_fingerprint", {"since": AT})
    with pytest.raises(PermanentDependencyError, match="latest_fingerprint knows no segmnt"):
        await clickhouse.rows(
            "latest_fingerprint", {"since": AT, "until": AT, "segmnt": "multi_page"}
        )


async def test_one_process_is_told_that_it_has_a_store_open(embedded: Real, tmp_path: Path) -> None:
    with pytest.raises(PermanentDependencyError, match="one process holds one folder"):
        await ClickHouseStore.open(
            f"chdb://{tmp_path / 'second'}", StoreConfig(), Metrics(CollectorRegistry())
        )


async def test_a_url_that_cannot_be_used_says_what_to_write() -> None:
    for url, words in {
        "chdb://relative/folder": "three slashes",
        "chdb:///": "absolute folder",
        "chdb:///var/lib/what?": "without a question mark",
        "sqlite:///x": "use chdb:///absolute/folder or http",
    }.items():
        with pytest.raises(PermanentDependencyError, match=words):
            await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))


OPEN = """
import asyncio, sys
from prometheus_client import CollectorRegistry
from collector.config import StoreConfig
from collector.errors import PermanentDependencyError
from collector.telemetry import Metrics
from sinks.clickhouse import ClickHouseStore

async def main():
    store = await ClickHouseStore.open(
        sys.argv[1], StoreConfig(late_spans_hours=7), Metrics(CollectorRegistry())
    )
    print("open", flush=True)
    sys.stdin.readline()
    await store.close()
    await store.close()
    try:
        await store.known(["a"])
    except PermanentDependencyError as err:
        print(err, flush=True)

try:
    asyncio.run(main())
except PermanentDependencyError as err:
    print(err, flush=True)
"""


def test_an_engine_without_a_temporary_folder_says_so(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", OPEN, f"chdb://{tmp_path / 'store'}"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": "/proc"},  # nobody can make a folder there
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "TMPDIR" in found.stdout


def test_a_folder_that_another_process_holds_is_refused_in_plain_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPEN, f"chdb://{tmp_path / 'held #1 50%'}"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "open\n"
        second = subprocess.run(
            command, cwd=ROOT, input="\n", capture_output=True, text=True, timeout=60, check=True
        )
        rest, _ = first.communicate("\n", timeout=60)
    assert "is in use by another process" in second.stdout
    assert "HTTP API" in second.stdout
    assert rest == "store: it is closed\n"
