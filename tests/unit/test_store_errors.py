from __future__ import annotations

import pytest
from clickhouse_connect.driver.exceptions import (
    DatabaseError,
    DataError,
    OperationalError,
    ProgrammingError,
)

from collector.errors import PermanentDependencyError, TransientDependencyError
from sinks.connection import translated

SECRET = "what the user asked"


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (DatabaseError(SECRET, code=241, name="MEMORY_LIMIT_EXCEEDED"), "transient", "241 MEMORY"),
        (DatabaseError(SECRET, code=159, name="TIMEOUT_EXCEEDED"), "transient", "159 TIMEOUT"),
        (DatabaseError(SECRET, code=252, name="TOO_MANY_PARTS"), "transient", "merges are behind"),
        (DatabaseError(SECRET, code=243, name="NOT_ENOUGH_SPACE"), "transient", "free disk space"),
        (DatabaseError(SECRET, code=573, name="EPOLL_ERROR"), "transient", "573 EPOLL_ERROR"),
        (DatabaseError(SECRET, code=204, name="CANNOT_FSYNC"), "transient", "204 CANNOT_FSYNC"),
        (DatabaseError(SECRET, code=60, name="UNKNOWN_TABLE"), "permanent", "groundwatch migrate"),
        (DatabaseError(SECRET, code=516, name=None), "permanent", "check user and password"),
        (DatabaseError(SECRET, code=289, name="REPLICA_IS_NOT_IN_QUORUM"), "transient", "289 RE"),
        (DatabaseError(SECRET, code=286, name=None), "transient", "286 unnamed"),
        (DatabaseError(SECRET, code=341, name="UNFINISHED"), "transient", "341 UNFINISHED"),
        (DatabaseError(SECRET, code=164, name="READONLY"), "permanent", "may only read"),
        (DatabaseError(SECRET, code=62, name="SYNTAX_ERROR"), "permanent", "62 SYNTAX_ERROR"),
        (OperationalError(SECRET), "transient", "OperationalError"),
        (ProgrammingError(SECRET), "permanent", "ProgrammingError"),
        (DataError(SECRET), "permanent", "DataError"),
        (ConnectionRefusedError(111, "Connection refused"), "transient", "Connection refused"),
    ],
)
def test_an_error_of_the_engine_says_whether_to_try_again_and_quotes_nobody(
    error: Exception, kind: str, words: str
) -> None:
    expected = TransientDependencyError if kind == "transient" else PermanentDependencyError
    with pytest.raises(expected) as caught, translated("writing requests"):
        raise error
    message = str(caught.value)
    assert message.startswith("store: writing requests failed")
    assert words in message
    assert SECRET not in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
