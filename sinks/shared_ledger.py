"""Money spent on judging, in a table of ClickHouse that processes of any number of machines share.

ClickHouse cannot check a limit and set money aside in one step. So money is set aside first and
the sum looked at then: of two that do so at once, the later one at least sees both, and who sees
too much gives back. The limit holds, and near its end one may be told no that had found room.

Small sums come out of a larger one, set aside as a whole: ClickHouse likes few inserts. What a
process that dies had set aside stays charged. What ClickHouse could not be told, or may have heard
without an answer, is noted and told again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import structlog
from clickhouse_connect.driver.client import Client

from collector.errors import DependencyError, PermanentDependencyError, TransientDependencyError
from collector.ports import Spending
from sinks import rows as r
from sinks.connection import connect, translated, writer_settings
from sinks.winding_up import CLOSE_SECONDS, wound_up

_POTS_A_DAY = 500
_POT_USD = 0.1
"""Of a budget without a limit."""
_IDLE_SECONDS = 60.0
_STANDS_SECONDS = 1.0
"""How long an answer is not asked for again: those who wait for money ask often."""
_CALL_SECONDS = 15
"""Longer than any of these small calls takes."""

_COLUMNS = {
    "day": "Date",
    "spend_id": "String",
    "spent_at": "DateTime64(6, 'UTC')",
    "usd": "Float64",
    "held_usd": "Float64",
}

_SUMS = """
SELECT sumIf(usd, day = {day:Date}), sumIf(held_usd, day = {day:Date}),
  sumIf(usd, spent_at > {hour:DateTime64(6, 'UTC')})
FROM spend FINAL WHERE day >= toDate({hour:DateTime64(6, 'UTC')}) AND day <= {day:Date}
"""

_ID_TIME = "%Y%m%dT%H%M%S.%f"

_T = TypeVar("_T")

log = structlog.get_logger()


class _Pot:
    """A sum set aside, out of which smaller ones are paid."""

    def __init__(self, pot_id: str, usd: float, at: datetime) -> None:
        self.id = pot_id
        self.usd = usd
        self.at = at
        self.opened = monotonic()
        self.held: dict[str, float] = {}
        self.spent_usd = 0.0

    @property
    def taken_usd(self) -> float:
        return self.spent_usd + sum(self.held.values())

    @property
    def left_usd(self) -> float:
        return self.usd - self.taken_usd


class _No(NamedTuple):
    """What was refused last: so much, of that day; until then it is not asked again."""

    usd: float
    day: date
    until: float


class _Seen(NamedTuple):
    """What was stored when it was looked at last; until then it is not looked at again."""

    stored: Spending
    day: date
    until: float


class SharedLedger:
    """`collector.ports.Ledger` on a ClickHouse server; made by `open`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spend")
        # Held while ClickHouse is asked. What is known here changes without, in one step each.
        self._turn = asyncio.Lock()
        self._pot: _Pot | None = None
        self._pots: dict[str, _Pot] = {}
        """All that are not settled, by id."""
        self._untold: dict[str, float] = {}
        """What took the place of sums set aside, by id, that ClickHouse has yet to be told."""
        self._no: _No | None = None
        self._seen: _Seen | None = None
        self._closing = False
        self._closed = False

    @classmethod
    async def open(cls, url: str, cluster: str | None) -> SharedLedger:
        """Connect to the server that has the table.

        Raises:
            DependencyError: see `sinks.connection.connect`.
        """
        settings = writer_settings(cluster)
        return cls(await asyncio.to_thread(connect, url, settings, call_seconds=_CALL_SECONDS))

    async def reserve(
        self, usd: float, limit_usd: float | None, at: datetime, *, lasting: bool = False
    ) -> str | None:
        """See `Ledger.reserve`."""
        at = at.astimezone(UTC)
        async with self._turn:
            size = _POT_USD if limit_usd is None else limit_usd / _POTS_A_DAY
            if lasting or usd >= size:
                return await self._set_aside(usd, limit_usd, at)
            pot = self._pot
            if pot is None or pot.at.date() != at.date() or pot.left_usd < usd:
                pot = await self._next_pot(usd, size, limit_usd, at)
            if pot is None:
                return None
            handle = f"{pot.id}/{uuid4().hex}"
            pot.held[handle] = usd
            return handle

    async def settle(self, reservation: str, usd: float) -> None:
        """See `Ledger.settle`. Where it fails, or is cancelled, ClickHouse is told later."""
        pot_id, is_part, _ = reservation.partition("/")
        if is_part:
            pot = self._pots.get(pot_id)
            if pot is None or pot.held.pop(reservation, None) is None:
                return
            pot.spent_usd += usd
            if pot is not self._pot:
                self._put_back(pot)
        elif _time_of(pot_id) is not None:  # else it is of another record
            self._untold[pot_id] = usd
        if self._untold:
            async with self._turn:
                await self._tell()

    async def spending(self, at: datetime) -> Spending:
        """See `Ledger.spending`; of others, as of a second ago. An idle pot is put back first."""
        at = at.astimezone(UTC)
        async with self._turn:
            if self._pot is not None and monotonic() - self._pot.opened > _IDLE_SECONDS:
                self._leave_pot()
            await self._tell()
            seen = self._seen
            if seen is None or seen.day != at.date() or monotonic() >= seen.until:
                stored = await self._run(partial(_sums, at=at))
                seen = self._seen = _Seen(stored, at.date(), monotonic() + _STANDS_SECONDS)
            return self._with_ours(seen.stored, at)

    def _with_ours(self, stored: Spending, at: datetime) -> Spending:
        """Return what is stored with our pots looked into: what is left in them is not taken."""
        today, reserved, last_hour = stored
        for pot in self._pots.values():
            if pot.at.date() == at.date():
                today += pot.spent_usd
                reserved -= pot.spent_usd + pot.left_usd
            if pot.at > at - timedelta(hours=1):
                last_hour += pot.spent_usd
        return Spending(today, max(0.0, reserved), last_hour)

    async def close(self) -> None:
        """See `Ledger.close`. What is left of pots is put back, what is under way is charged."""
        if self._closing:
            return
        self._closing = True
        for pot in self._pots.values():
            self._untold[pot.id] = pot.taken_usd
        self._pot, self._pots = None, {}
        try:
            async with asyncio.timeout(CLOSE_SECONDS), self._turn:
                await self._tell()
        except (DependencyError, TimeoutError) as err:  # then all that was set aside stays charged
            log.warning("spend_not_settled", error=type(err).__name__)
        finally:
            self._closed = True
            if await wound_up([self._thread], CLOSE_SECONDS):
                self._client.close()

    async def _next_pot(
        self, usd: float, size: float, limit_usd: float | None, at: datetime
    ) -> _Pot | None:
        """Put back what is left and take a new pot, at the end of the day a smaller one."""
        self._leave_pot()
        for sum_usd in (size, usd):
            pot_id = await self._set_aside(sum_usd, limit_usd, at)
            if pot_id is not None:
                self._pot = self._pots[pot_id] = _Pot(pot_id, sum_usd, at)
                return self._pot
        return None

    def _leave_pot(self) -> None:
        pot, self._pot = self._pot, None
        if pot is not None:
            self._put_back(pot)

    def _put_back(self, pot: _Pot) -> None:
        """Note what was spent of a pot, once all that came out of it is settled."""
        if not pot.held:
            self._untold[pot.id] = pot.spent_usd
            del self._pots[pot.id]

    async def _set_aside(self, usd: float, limit_usd: float | None, at: datetime) -> str | None:
        await self._tell()
        no = self._no
        if no is not None and usd >= no.usd and at.date() == no.day and monotonic() < no.until:
            return None
        pot_id = f"{at:{_ID_TIME}}-{uuid4().hex}"
        call = partial(_set_aside, pot_id=pot_id, usd=usd, limit_usd=limit_usd, at=at)
        self._seen = None
        try:
            taken = await self._run(call)
        except BaseException:  # whether it is in, or comes in yet, nobody knows
            self._untold[pot_id] = 0.0
            raise
        self._no = None if taken else _No(usd, at.date(), monotonic() + _STANDS_SECONDS)
        return pot_id if taken else None

    async def _tell(self) -> None:
        """Tell ClickHouse what it does not know yet; once more does no harm."""
        if not self._untold:
            return
        told = self._untold.copy()
        self._seen = None
        await self._run(partial(_settle, sums=told))
        self._untold = {k: usd for k, usd in self._untold.items() if told.get(k) != usd}
        self._no = None

    async def _run(self, call: Callable[[Client], _T]) -> _T:
        if self._closed:
            raise TransientDependencyError("the record of spend is closed")
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, partial(call, self._client)
        )


def _set_aside(
    client: Client, *, pot_id: str, usd: float, limit_usd: float | None, at: datetime
) -> bool:
    """Set a sum aside; False where the day would exceed its limit."""

    def is_too_much(more_usd: float) -> bool:
        if limit_usd is None:
            return False
        sums = _sums(client, at=at)
        return sums.today_usd + sums.reserved_usd + more_usd > limit_usd

    if is_too_much(usd):
        return False
    _write(client, [[at.date(), pot_id, at, 0.0, usd]])
    if is_too_much(0.0):  # with what others set aside meanwhile
        _settle(client, sums={pot_id: 0.0})
        return False
    return True


def _settle(client: Client, *, sums: Mapping[str, float]) -> None:
    """Put what was spent in place of what was set aside, whether that is in yet or comes later."""
    rows: list[list[Any]] = []
    for pot_id, usd in sums.items():
        if (at := _time_of(pot_id)) is not None:
            # The newer of two rows counts, in whatever order they come.
            rows.append([at.date(), pot_id, at + timedelta(microseconds=1), usd, 0.0])
    _write(client, rows)


def _write(client: Client, rows: Sequence[Sequence[Any]]) -> None:
    try:
        with translated("writing spend"):
            client.insert(
                "spend",
                rows,
                column_names=list(_COLUMNS),
                column_type_names=list(_COLUMNS.values()),
            )
    except PermanentDependencyError as err:
        raise PermanentDependencyError(
            f"{err}; who judges writes into the table spend, unless judge.openai.spend_file is set"
        ) from None


def _time_of(pot_id: str) -> datetime | None:
    """Return when a sum was set aside; None if it was not in this table."""
    try:
        return datetime.strptime(pot_id.partition("-")[0], _ID_TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


def _sums(client: Client, *, at: datetime) -> Spending:
    bounds = {"day": f"{at:%Y-%m-%d}", "hour": r.parameter(at - timedelta(hours=1))}
    with translated("reading spend"):
        ((today, reserved, last_hour),) = client.query(_SUMS, parameters=bounds).result_rows
    return Spending(today, reserved, last_hour)
