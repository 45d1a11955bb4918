"""Writes requests to the store, and sets aside what it refuses for good."""

from __future__ import annotations

from collections.abc import Sequence

from collector.errors import PermanentDependencyError
from collector.model import StoredRequest
from collector.ports import Store
from collector.set_aside import SetAside, letter_of
from collector.timing import Patience


class RequestWriter:
    """Tells a row that is refused for its own sake from a store that refuses every row."""

    def __init__(self, store: Store, set_aside: SetAside) -> None:
        self._store = store
        self._set_aside = set_aside
        self._accepted: StoredRequest | None = None

    async def write(self, rows: Sequence[StoredRequest], patiently: Patience) -> set[str]:
        """Write rows; return the trace ids of those that were set aside.

        Raises:
            PermanentDependencyError: the store refuses all rows; none is set aside.
            TransientDependencyError: only once stopping.
        """
        if not rows:
            return set()
        try:
            await patiently(self._store.write_requests, rows)
        except PermanentDependencyError:
            refused = [row for row in rows if not await self._accepts(row, patiently)]
            if len(refused) == len(rows) and not await self._is_to_blame(rows, patiently):
                raise  # not the fault of one row: stop before the journal is drained for nothing
            letters = [letter_of(row.request.trace_id, row.telemetry) for row in refused]
            await self._set_aside(letters, "store_refused", patiently)
            return {row.request.trace_id for row in refused}
        self._accepted = rows[-1]
        return set()

    async def _is_to_blame(self, rows: Sequence[StoredRequest], patiently: Patience) -> bool:
        """Say whether a row without neighbours is refused where one written before still is not.

        To write that one again changes nothing.
        """
        return (
            len(rows) == 1
            and self._accepted is not None
            and await self._accepts(self._accepted, patiently)
        )

    async def _accepts(self, row: StoredRequest, patiently: Patience) -> bool:
        try:
            await patiently(self._store.write_requests, [row])
        except PermanentDependencyError:
            return False
        self._accepted = row
        return True
