"""Money spent on judging, in a table of ClickHouse that processes of any number of machines share.

ClickHouse cannot check a limit and set money aside in one step. So money is set aside first and
the sum looked at then: of two that do so at once, the later one at least sees both, and who sees
too much gives back. The limit holds, and near its end one may be told no that had found room.

Small sums come out of a larger one, set aside as a whole: ClickHouse likes few inserts. What a
process that dies had set aside stays charged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from functools import partial
from time import monotonic
from typing import NamedTuple, TypeVar
from uuid import uuid4

from clickhouse_connect.driver.client import Client

from collector.ports import Spending
from sinks import rows as r
from sinks.connection import connect, translated, writer_settings

_POTS_A_DAY = 500
_POT_USD = 0.1
"""Of a budget without a limit."""
_IDLE_SECONDS = 60.0
_NO_STANDS_SECONDS = 1.0
"""How long it is not asked again once nothing was left: those who wait ask often."""

_COLUMNS = ("day", "spend_id", "spent_at", "usd", "held_usd")

_SUMS = """
SELECT sum(usd), sum(held_usd), sumIf(usd, spent_at > {hour:DateTime64(6, 'UTC')})
FROM spend FINAL WHERE day = {day:Date}
"""

_HELD = """
SELECT spent_at FROM spend FINAL
WHERE day = {day:Date} AND spend_id = {id:String} AND held_usd > 0
"""

_T = TypeVar("_T")


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
    def left_usd(self) -> float:
        return self.usd - self.spent_usd - sum(self.held.values())


class _No(NamedTuple):
    """What was refused last: so much, of that day; until then it is not asked again."""

    usd: float
    day: date
    until: float


class SharedLedger:
    """`collector.ports.Ledger` on a ClickHouse server; made by `open`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spend")
        self._turn = asyncio.Lock()
        self._pot: _Pot | None = None
        self._pots: dict[str, _Pot] = {}
        """All that are not settled, by id."""
        self._no: _No | None = None
        self._closed = False

    @classmethod
    async def open(cls, url: str, cluster: str | None) -> SharedLedger:
        """Connect to the server that has the table.

        Raises:
            DependencyError: see `sinks.connection.connect`.
        """
        return cls(await asyncio.to_thread(connect, url, writer_settings(cluster)))

    async def reserve(self, usd: float, limit_usd: float | None, at: datetime) -> str | None:
        """See `Ledger.reserve`. The handle of a sum as large as a pot outlives this process."""
        at = at.astimezone(UTC)
        async with self._turn:
            size = _POT_USD if limit_usd is None else limit_usd / _POTS_A_DAY
            if usd >= size:
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
        """See `Ledger.settle`."""
        pot_id, is_part, _ = reservation.partition("/")
        async with self._turn:
            self._no = None
            if not is_part:
                await self._run(partial(_settle, pot_id=pot_id, usd=usd))
                return
            pot = self._pots.get(pot_id)
            if pot is None or pot.held.pop(reservation, None) is None:
                return
            pot.spent_usd += usd
            if pot is not self._pot:
                await self._put_back(pot)

    async def spending(self, at: datetime) -> Spending:
        """See `Ledger.spending`. A pot that nobody used of late is put back first."""
        async with self._turn:
            if self._pot is not None and monotonic() - self._pot.opened > _IDLE_SECONDS:
                await self._put_back(self._pot)
                self._pot = None
            at = at.astimezone(UTC)
            return self._with_ours(await self._run(partial(_sums, at=at)), at)

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
        """See `Ledger.close`. What is left of the pot is put back."""
        if self._closed:
            return
        self._closed = True
        try:
            async with self._turn:
                if self._pot is not None:
                    await self._put_back(self._pot)
        finally:
            await asyncio.to_thread(self._thread.shutdown)
            self._client.close()

    async def _next_pot(
        self, usd: float, size: float, limit_usd: float | None, at: datetime
    ) -> _Pot | None:
        """Put back what is left and take a new pot, at the end of the day a smaller one."""
        if self._pot is not None:
            await self._put_back(self._pot)
            self._pot = None
        for sum_usd in (size, usd):
            pot_id = await self._set_aside(sum_usd, limit_usd, at)
            if pot_id is not None:
                self._pot = self._pots[pot_id] = _Pot(pot_id, sum_usd, at)
                return self._pot
        return None

    async def _put_back(self, pot: _Pot) -> None:
        """Settle a pot once all that came out of it is settled."""
        if not pot.held:
            await self._run(partial(_settle, pot_id=pot.id, usd=pot.spent_usd))
            self._pots.pop(pot.id, None)

    async def _set_aside(self, usd: float, limit_usd: float | None, at: datetime) -> str | None:
        no = self._no
        if no is not None and usd >= no.usd and at.date() == no.day and monotonic() < no.until:
            return None
        taken = await self._run(partial(_set_aside, usd=usd, limit_usd=limit_usd, at=at))
        self._no = None if taken else _No(usd, at.date(), monotonic() + _NO_STANDS_SECONDS)
        return taken

    async def _run(self, call: Callable[[Client], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, partial(call, self._client)
        )


def _set_aside(client: Client, *, usd: float, limit_usd: float | None, at: datetime) -> str | None:
    """Set a sum aside and return its id; None where the day would exceed its limit."""

    def is_too_much(more_usd: float) -> bool:
        if limit_usd is None:
            return False
        sums = _sums(client, at=at)
        return sums.today_usd + sums.reserved_usd + more_usd > limit_usd

    if is_too_much(usd):
        return None
    pot_id = f"{at:%Y-%m-%d}.{uuid4().hex}"
    _write(client, pot_id, at, held_usd=usd)
    if is_too_much(0.0):  # with what others set aside meanwhile
        _settle(client, pot_id=pot_id, usd=0.0)
        return None
    return pot_id


def _settle(client: Client, *, pot_id: str, usd: float) -> None:
    with translated("reading spend"):
        held = client.query(_HELD, parameters={"day": _day_of(pot_id), "id": pot_id}).result_rows
    for (at,) in held:
        # The newer of two rows counts.
        _write(client, pot_id, at + timedelta(microseconds=1), usd=usd)


def _write(
    client: Client, pot_id: str, at: datetime, *, usd: float = 0.0, held_usd: float = 0.0
) -> None:
    row = [date.fromisoformat(_day_of(pot_id)), pot_id, at, usd, held_usd]
    with translated("writing spend"):
        client.insert("spend", [row], column_names=_COLUMNS)


def _day_of(pot_id: str) -> str:
    return pot_id.partition(".")[0]


def _sums(client: Client, *, at: datetime) -> Spending:
    bounds = {"day": f"{at:%Y-%m-%d}", "hour": r.parameter(at - timedelta(hours=1))}
    with translated("reading spend"):
        ((today, reserved, last_hour),) = client.query(_SUMS, parameters=bounds).result_rows
    return Spending(today, reserved, last_hour)
