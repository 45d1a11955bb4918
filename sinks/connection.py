"""Connections to ClickHouse, embedded or served, and the one place where its errors are read.

Two kinds of URL: `chdb:///abs/dir` runs the engine in this process on that folder, which it
holds alone; `http(s)://user:password@host:port/database` talks to a server.
"""

from __future__ import annotations

import fcntl
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError

from collector.errors import DependencyError, PermanentDependencyError, TransientDependencyError
from collector.telemetry import Metrics

ENGINE_OPTIONS = {
    "max_server_memory_usage": "2000000000",
    "max_threads": "2",
    "background_pool_size": "2",
    # Both caches default to 5 GB, far above what a store on one machine needs.
    "mark_cache_size": "134217728",
    "primary_index_cache_size": "134217728",
}
"""Options of the embedded engine. It ignores an unknown key without a word."""

READER_SETTINGS = {
    # A cancelled call does not stop its query, so every query stops by itself.
    "max_execution_time": 20,
    "max_memory_usage": 500_000_000,
    # The queries read an absent partner of a join as "" and 0, whatever the server's default.
    "join_use_nulls": 0,
}

WRITER_SETTINGS = {
    "max_execution_time": 60,
    # An insert is acknowledged once its part is on disk, not once it is queued.
    "async_insert": 0,
}

_ORDERED_READS = {
    # A replica that is behind refuses to answer, in place of leaving out what was acknowledged.
    "select_sequential_consistency": 1,
}

_REPLICATED_READER_SETTINGS = {**READER_SETTINGS, **_ORDERED_READS}

REPLICATED_WRITER_SETTINGS = {
    **WRITER_SETTINGS,
    **_ORDERED_READS,
    # An insert is acknowledged once most replicas have it, each with all that came before. Two
    # inserts into one table at the same time: one is refused for the moment, and comes again.
    "insert_quorum": "auto",
    "insert_quorum_parallel": 0,
    "insert_quorum_timeout": 30_000,
}

_TRANSIENT_CODES = frozenset(
    {
        3,  # UNEXPECTED_END_OF_FILE
        32,  # ATTEMPT_TO_READ_AFTER_EOF
        74,  # CANNOT_READ_FROM_FILE_DESCRIPTOR
        75,  # CANNOT_WRITE_TO_FILE_DESCRIPTOR
        76,  # CANNOT_OPEN_FILE
        77,  # CANNOT_CLOSE_FILE
        88,  # CANNOT_TRUNCATE_FILE
        95,  # CANNOT_READ_FROM_SOCKET
        96,  # CANNOT_WRITE_TO_SOCKET
        159,  # TIMEOUT_EXCEEDED
        160,  # TOO_SLOW
        172,  # CANNOT_CREATE_DIRECTORY
        173,  # CANNOT_ALLOCATE_MEMORY
        198,  # DNS_ERROR
        201,  # QUOTA_EXCEEDED
        202,  # TOO_MANY_SIMULTANEOUS_QUERIES
        203,  # NO_FREE_CONNECTION
        204,  # CANNOT_FSYNC
        209,  # SOCKET_TIMEOUT
        210,  # NETWORK_ERROR
        218,  # TABLE_IS_DROPPED
        225,  # NO_ZOOKEEPER
        234,  # NO_REPLICA_HAS_PART
        236,  # ABORTED
        241,  # MEMORY_LIMIT_EXCEEDED
        242,  # TABLE_IS_READ_ONLY
        243,  # NOT_ENOUGH_SPACE
        244,  # UNEXPECTED_ZOOKEEPER_ERROR
        252,  # TOO_MANY_PARTS
        254,  # NO_ACTIVE_REPLICAS
        265,  # NO_AVAILABLE_REPLICA
        279,  # ALL_CONNECTION_TRIES_FAILED
        285,  # TOO_FEW_LIVE_REPLICAS
        286,  # UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
        289,  # REPLICA_IS_NOT_IN_QUORUM
        294,  # CANNOT_WRITE_TO_FILE
        298,  # CANNOT_PIPE
        319,  # UNKNOWN_STATUS_OF_INSERT
        341,  # UNFINISHED
        364,  # RECEIVED_ERROR_TOO_MANY_REQUESTS
        369,  # ALL_REPLICAS_ARE_STALE
        394,  # QUERY_WAS_CANCELLED
        416,  # REPLICA_STATUS_CHANGED
        425,  # SYSTEM_ERROR
        439,  # CANNOT_SCHEDULE_TASK
        463,  # CANNOT_FCNTL
        473,  # DEADLOCK_AVOIDED
        499,  # S3_ERROR
        517,  # CANNOT_ASSIGN_ALTER
        573,  # EPOLL_ERROR
        586,  # CANNOT_CREATE_FILE
        641,  # CANNOT_APPEND_TO_FILE
        692,  # TOO_MANY_MUTATIONS
        696,  # ASYNC_LOAD_CANCELED
        700,  # USER_SESSION_LIMIT_EXCEEDED
        733,  # TABLE_IS_BEING_RESTARTED
        735,  # QUERY_WAS_CANCELLED_BY_CLIENT
        745,  # SERVER_OVERLOADED
        749,  # TCP_CONNECTION_LIMIT_REACHED
        762,  # HTTP_CONNECTION_LIMIT_REACHED
        776,  # RESOURCE_LIMIT_EXCEEDED
        999,  # KEEPER_EXCEPTION
        1000,  # POCO_EXCEPTION
        1019,  # QUERY_SLOT_ACQUISITION_TIMEOUT
        1020,  # MEMORY_RESERVATION_ACQUISITION_TIMEOUT
    }
)
"""Error codes after which the same call may succeed. Any other code needs a person."""

_CURES = {
    16: "the tables are of another version: run `groundwatch migrate`",
    47: "the tables are of another version: run `groundwatch migrate`",
    60: "the tables are missing: run `groundwatch migrate`",
    81: "the database in store.url does not exist: create it",
    164: "store.url names a user that may only read",
    192: "check the user in store.url",
    193: "check the password in store.url",
    194: "store.url needs a password",
    243: "free disk space",
    252: "merges are behind: write larger batches or free the disk",
    497: "the user in store.url lacks rights on the database",
    516: "check user and password in store.url",
}

_CALL_SECONDS = 300

_HTTP_STATUS = re.compile(r"HTTP driver received HTTP status (\d{3})")
_PASSING_STATUSES = frozenset({408, 425, 429})
"""Of the statuses below 500, those after which the same call may succeed."""


def reader_settings(cluster: str | None) -> dict[str, Any]:
    """Return the settings of those who read, from a server alone or from any of a cluster."""
    return READER_SETTINGS if cluster is None else _REPLICATED_READER_SETTINGS


def writer_settings(cluster: str | None) -> dict[str, Any]:
    """Return the settings of those who write, to a server alone or to all of a cluster."""
    return WRITER_SETTINGS if cluster is None else REPLICATED_WRITER_SETTINGS


def is_embedded(url: str) -> bool:
    """Whether `url` runs the engine inside this process."""
    return url.startswith("chdb:")


def embedded_folder(url: str) -> Path | None:
    """Return the folder of an embedded store, None for a served one."""
    return Path("/" + url.removeprefix("chdb:").lstrip("/")) if is_embedded(url) else None


def connect(url: str, settings: dict[str, Any], *, call_seconds: int = _CALL_SECONDS) -> Client:
    """Open one client. A client runs one call at a time; use one per thread.

    Args:
        url: see the module docstring.
        settings: ClickHouse settings of the session.
        call_seconds: how long a server may be silent before a call to it fails.

    Raises:
        PermanentDependencyError: the URL is wrong, or the folder is held by another process.
        TransientDependencyError: the server cannot be reached now.
    """
    if is_embedded(url):
        return _connect_embedded(url.removeprefix("chdb:"), settings)
    parts = urlsplit(url)
    if parts.scheme in ("http", "https"):
        return _connect_server(parts, settings, call_seconds)
    raise PermanentDependencyError(
        f"store.url: {parts.scheme or 'no'} scheme; use chdb:///absolute/folder or http(s)://..."
    )


def _connect_embedded(place: str, settings: dict[str, Any]) -> Client:
    """Open the folder of `///absolute/folder`, taken as it is written, without escapes."""
    folder = Path("/" + place.removeprefix("///"))
    if not place.startswith("///") or folder == Path("/") or "?" in place:
        raise PermanentDependencyError(
            "store.url: chdb needs an absolute folder, with three slashes and without a question "
            "mark: chdb:///var/lib/store"
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return clickhouse_connect.get_client(
            interface="chdb",
            database="default",
            path=str(folder),
            chdb_options=ENGINE_OPTIONS,
            settings=settings,
            tz_mode="aware",
        )
    except OSError as err:
        raise PermanentDependencyError(
            f"store.url: the folder {folder} cannot be used: {err.strerror}"
        ) from err
    except ImportError as err:
        raise PermanentDependencyError(
            "store.url: the embedded engine is not installed; install groundwatch[embedded]"
        ) from err
    except RuntimeError as err:  # of the engine's own import, which starts one in /tmp
        raise PermanentDependencyError(
            "store.url: the embedded engine cannot start; it needs a temporary folder that it can "
            "write to, /tmp or the one that TMPDIR names"
        ) from err
    except ClickHouseError as err:
        raise PermanentDependencyError(_why_not_opened(folder, str(err))) from err


def _why_not_opened(folder: Path, message: str) -> str:
    """Say why the engine did not start; its own reason goes to standard error only."""
    if "already initialized" in message:
        return (
            f"store.url: this process already has another embedded store open than {folder}; "
            "one process holds one folder"
        )
    if _held_elsewhere(folder):
        return (
            f"store.url: the folder {folder} is in use by another process; only one may open it. "
            "Stop that process, or ask it over its HTTP API"
        )
    return (
        f"store.url: the embedded engine cannot open the folder {folder}; "
        "the line above on standard error says why"
    )


def _held_elsewhere(folder: Path) -> bool:
    """Whether a running engine holds the lock that lies on the folder's status file."""
    try:
        with (folder / "status").open("rb") as status:
            fcntl.flock(status, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _connect_server(parts: SplitResult, settings: dict[str, Any], call_seconds: int) -> Client:
    where = f"{parts.hostname}:{parts.port or (8443 if parts.scheme == 'https' else 8123)}"
    with translated(f"connecting to {where}"):
        return clickhouse_connect.get_client(
            interface=parts.scheme,
            host=parts.hostname or "localhost",
            port=parts.port or (8443 if parts.scheme == "https" else 8123),
            username=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password or ""),
            database=unquote(parts.path.strip("/")) or "default",
            settings=settings,
            send_receive_timeout=call_seconds,
            tz_mode="aware",
            autogenerate_session_id=False,
            # Lists of ids travel in the body: a URL has a length limit in proxies.
            form_encode_query_params=True,
        )


@contextmanager
def translated(operation: str) -> Iterator[None]:
    """Turn the client's exceptions into ours.

    The message holds what was done, the code and its symbolic name. The server's own text is left
    out with the whole chain: it can quote values, and values are texts of users.

    Raises:
        TransientDependencyError: the same call may succeed later.
        PermanentDependencyError: a person has to act.
    """
    try:
        yield
    except ClickHouseError as err:
        raise _translate(operation, err) from None
    except OSError as err:
        reason = err.strerror or type(err).__name__
        raise TransientDependencyError(f"store: {operation} failed: {reason}") from None


def _translate(operation: str, err: ClickHouseError) -> DependencyError:
    code = getattr(err, "code", None)
    if code is None:
        return _without_a_code(operation, err)
    kind = TransientDependencyError if code in _TRANSIENT_CODES else PermanentDependencyError
    cure = f"; {_CURES[code]}" if code in _CURES else ""
    name = getattr(err, "name", None) or "unnamed"
    return kind(f"store: {operation} failed: ClickHouse error {code} {name}{cure}")


def _without_a_code(operation: str, err: ClickHouseError) -> DependencyError:
    """Translate what came from the client, or from the way to the server, not from the server."""
    if status := _HTTP_STATUS.match(str(err)):
        passing = int(status[1]) >= 500 or int(status[1]) in _PASSING_STATUSES
        kind = TransientDependencyError if passing else PermanentDependencyError
        return kind(
            f"store: {operation} failed: HTTP status {status[1]} from something between here and "
            "ClickHouse, such as a proxy; check the address in store.url"
        )
    if setting := re.fullmatch(r"Setting (\w+) is readonly", str(err)):
        return PermanentDependencyError(
            f"store: {operation} failed: the user in store.url may not set {setting[1]}; give it "
            "readonly = 2 in place of 1"
        )
    causes = list(_causes(err))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return PermanentDependencyError(
                f"store: {operation} failed: the certificate is not accepted: "
                f"{cause.verify_message}; name the file of its authority in the environment "
                "variable SSL_CERT_FILE"
            )
    kind = (
        TransientDependencyError if isinstance(err, OperationalError) else PermanentDependencyError
    )
    reasons = (cause.strerror for cause in causes if isinstance(cause, OSError))
    reason = next(filter(None, reasons), type(causes[-1]).__name__)
    return kind(f"store: {operation} failed: {reason}")


def _causes(err: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it came of, the last one first."""
    cause: BaseException | None = err
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


@contextmanager
def measured(metrics: Metrics, table: str, rows: int) -> Iterator[None]:
    """Time one write to `table` and count its rows, or its failure."""
    try:
        with metrics.store_seconds.labels(table).time():
            yield
    except DependencyError as err:
        kind = "transient" if isinstance(err, TransientDependencyError) else "permanent"
        metrics.store_failures.labels(table, kind).inc()
        raise
    metrics.store_rows.labels(table).inc(rows)
