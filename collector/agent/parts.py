"""What the roles of one process share. Each is opened when a role first asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry

from collector.accounting import Accounting
from collector.agent.letters import dead_letters_of
from collector.agent.opening import held, make_data_dir, open_journal, open_store
from collector.agent.roles import Role, Roles
from collector.agent.supervisor import Run, Supervisor
from collector.config import Resolved
from collector.judges import Judges, build_judges, golds_of, open_budget, running_judges
from collector.ports import JUDGE, Consumer, DeadLetters, Journal
from collector.telemetry import Metrics
from collector.timing import SystemClock
from dashboards.reports import SCORER, Reports
from scorers.aspects import Golds
from scorers.covariate import Covariate
from scorers.judge.budget import Budget
from sinks.clickhouse import ClickHouseStore

_UNSCRAPED = "unscraped.json"
_UNSCRAPED_SCORES = "unscraped-scores.json"


class Data(NamedTuple):
    """The store and what stands on it; a receiver alone does without."""

    store: ClickHouseStore
    golds: Golds
    judges: Judges
    """They judge where this process has the role; elsewhere only their names are of use."""
    reports: Reports
    accounting: Accounting
    covariate: Covariate

    @property
    def fingerprint(self) -> str:
        """Of the judge of faithfulness."""
        return self.judges.judge.fingerprint


class Parts:
    """Opens what is shared, and runs work, both for as long as `stack` is open.

    Args:
        resolved: the configuration.
        roles: of this process.
        stack: is left in reverse, so that work ends before what it uses is closed.
    """

    def __init__(self, resolved: Resolved, roles: Roles, stack: AsyncExitStack) -> None:
        self.resolved = resolved
        self.config = resolved.config
        self.roles = roles
        self.stack = stack
        self.clock = SystemClock()
        self.metrics = Metrics(CollectorRegistry())
        self.metrics.build_info.labels(version("groundwatch")).set(1)
        self.supervisor = Supervisor(self.config.shutdown_seconds, self.clock)
        self.consumers: dict[str, Consumer] = {}
        """By topic, those whose lag is shown."""
        self.budget = Budget(None, None, self.metrics, self.clock)
        self.known: Data | None = None
        self._journal: Journal | None = None
        self._dead_letters: DeadLetters | None = None
        make_data_dir(self.config.data_dir)
        if self.config.journal.kafka is not None:
            stack.enter_context(held(self.config.data_dir))

    def takes_role(self, role: Role) -> None:
        """Show in the metrics that this process works in a role."""
        self.metrics.role.labels(role).set(1)

    async def run(self, *works: Run) -> None:
        """Run works; at the end they are told to stop, and finish what is under way."""
        for work in works:
            await self.stack.enter_async_context(self.supervisor.until_stopped(work))

    async def keep_doing(self, work: Coroutine[Any, Any, None]) -> None:
        """Run what never ends; at the end it is cancelled."""
        await self.stack.enter_async_context(self.supervisor.task(work))

    async def journal(self) -> Journal:
        """Return the journal."""
        if self._journal is None:
            self._journal = await open_journal(self.resolved, self.metrics)
            self.stack.push_async_callback(self._journal.close)
        return self._journal

    async def read(self, *topics: str) -> list[Consumer]:
        """Join those who read these topics of the journal, and show the lag."""
        journal = await self.journal()
        joining = (journal.consumer(topic, "groundwatch") for topic in topics)
        consumers = await asyncio.gather(*joining)
        self.consumers |= zip(topics, consumers, strict=True)
        return consumers

    def dead_letters(self) -> DeadLetters:
        """Return where records go that can never be processed."""
        if self._dead_letters is None:
            self._dead_letters = self.stack.enter_context(dead_letters_of(self.resolved))
        return self._dead_letters

    async def data(self) -> Data:
        """Return the store and what stands on it."""
        if self.known is None:
            self.known = await self._open_data()
        return self.known

    async def _open_data(self) -> Data:
        store = await open_store(self.config, self.metrics)
        self.stack.push_async_callback(store.close)
        golds = await asyncio.to_thread(golds_of, self.config)
        judges = await self._judges(golds, store)
        judge = judges.judge.fingerprint
        self.metrics.judge_info.labels(judge).set(1)
        reports = Reports(store, judge, judges.fingerprints)
        accounting = Accounting(self.metrics, judge, scorers=judges.fingerprints)
        if self.roles & {"processor", "judge"}:
            await self._go_on_counting(accounting, reports)
        covariate = Covariate(store, SCORER, judge, self.clock)
        return Data(store, golds, judges, reports, accounting, covariate)

    async def _judges(self, golds: Golds, store: ClickHouseStore) -> Judges:
        if "judge" in self.roles:
            self.budget = await open_budget(self.config, self.metrics, self.clock, self.stack)
            return await running_judges(
                self.resolved,
                golds,
                store,
                self.budget,
                self.metrics,
                self.clock,
                self.stack,
                self._share_of_judging,
            )
        # With metrics of their own: that these endpoints are up says nothing.
        unseen = Metrics(CollectorRegistry())
        judges = await asyncio.to_thread(build_judges, self.resolved, unseen, golds=golds)
        self.stack.push_async_callback(judges.close)
        return judges

    def _share_of_judging(self) -> float:
        return self.consumers[JUDGE].share if JUDGE in self.consumers else 1.0

    async def _go_on_counting(self, accounting: Accounting, reports: Reports) -> None:
        """Take over what the last process counted and no scrape has seen; hand it on at the end."""
        for counters, name in (
            (accounting.quality, _UNSCRAPED),
            (accounting.scores, _UNSCRAPED_SCORES),
        ):
            counters.take_over(self.config.data_dir / name)
            self.stack.callback(counters.hand_over, self.config.data_dir / name)
        for service, segment in await reports.known_segments(self.clock.now()):
            accounting.announce(service, segment)
