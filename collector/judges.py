"""Builds the judges that a configuration names, all on the same limits, money and connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import NamedTuple

from collector.config import Config, OpenAIConfig, Resolved, ScorerName
from collector.model import FAITHFULNESS, SECOND
from collector.ports import Judge, Ledger, Store
from collector.sampling import OwnDraw
from collector.telemetry import Metrics
from collector.timing import Clock, SystemClock
from scorers.aspects import NO_GOLDS, Gold, Golds, ReferenceJudge, applies, local_scorer
from scorers.judge.budget import Budget
from scorers.judge.cache import CachedJudge
from scorers.lexical import LexicalJudge
from sinks import golden_file
from sinks.batch_calls import SqliteBatchCalls
from sinks.connection import is_embedded
from sinks.shared_ledger import SharedLedger
from sinks.spend_ledger import SpendLedger


class Judges(NamedTuple):
    """All judges of an agent: that of faithfulness, and those of the other scorers by name."""

    judge: Judge
    scorers: Mapping[str, Judge]

    @property
    def fingerprints(self) -> dict[str, str]:
        """Return the fingerprints of the other scorers by name."""
        return {name: judge.fingerprint for name, judge in self.scorers.items()}

    async def close(self) -> None:
        """Close all. May be called twice."""
        for judge in (self.judge, *self.scorers.values()):
            await judge.close()


async def open_budget(
    config: Config, metrics: Metrics, clock: Clock, stack: AsyncExitStack
) -> Budget:
    """Open the record of spend; judges that are free need none."""
    openai = config.judge.openai
    if not config.judge.asks_a_model:
        return Budget(None, None, metrics, clock)
    ledger: Ledger
    if openai.spend_file is None and not is_embedded(config.store_url):
        ledger = await SharedLedger.open(config.store_url, config.store.cluster)
    else:
        ledger = await SpendLedger.open(openai.spend_file or config.data_dir / "spend.sqlite")
    stack.push_async_callback(ledger.close)
    return Budget(ledger, openai.daily_budget_usd, metrics, clock)


async def running_judges(
    resolved: Resolved,
    golds: Golds,
    store: Store,
    budget: Budget,
    metrics: Metrics,
    clock: Clock,
    stack: AsyncExitStack,
    share: Callable[[], float],
) -> Judges:
    """Build the judges of a running agent: what is stored already is not asked again.

    `share` is as in `build_judges`.
    """
    config, calls = resolved.config, None
    if config.judge.openai.batch and config.judge.asks_a_model:
        calls = await asyncio.to_thread(SqliteBatchCalls, config.data_dir / "batches.sqlite")
        stack.push_async_callback(calls.close)
    cached = partial(CachedJudge, store=store, metrics=metrics)
    judges = await asyncio.to_thread(
        build_judges, resolved, metrics, budget, clock, calls, golds, cached, share
    )
    stack.push_async_callback(judges.close)
    return judges


def build_judges(
    resolved: Resolved,
    metrics: Metrics,
    budget: Budget | None = None,
    clock: Clock | None = None,
    batches: SqliteBatchCalls | None = None,
    golds: Golds = NO_GOLDS,
    wrapped: Callable[[Judge], Judge] = lambda judge: judge,
    share: Callable[[], float] = lambda: 1.0,
) -> Judges:
    """Build the judges that the configuration names.

    Args:
        resolved: the configuration.
        metrics: where calls, tokens and cost are counted.
        budget: pays for calls; by default nothing is counted.
        clock: the time.
        batches: the record of calls by the Batch API, None where they are made singly.
        golds: the golden questions.
        wrapped: is put around each judge that asks a model.
        share: part of the limits a minute that is this process's, now.
    """
    config, clock = resolved.config.judge, clock or SystemClock()
    budget = budget or Budget(None, None, metrics, clock)
    if not config.asks_a_model:
        local: dict[str, Judge] = {name: _local(name, golds) for name in config.scorers}
        return Judges(LexicalJudge(), local)
    # The client is slow to import; an agent that judges locally does not need it.
    from scorers.judge.batch import batch_pool
    from scorers.judge.client import OpenAIJudge
    from scorers.judge.methods import METHODS
    from scorers.judge.pool import Pool

    keys = resolved.secrets.judge_keys

    def asks(name: str, openai: OpenAIConfig, asker: Pool | None = None) -> Judge:
        return wrapped(
            OpenAIJudge(
                openai,
                keys,
                metrics,
                clock,
                budget,
                config.concurrency,
                asker or shared,
                METHODS[name],
            )
        )

    openai = config.openai
    shared = (
        batch_pool(openai, keys, batches, budget, metrics, clock)
        if batches
        else Pool(openai, keys, budget, metrics, clock, config.concurrency, share)
    )
    judge = LexicalJudge() if config.engine == "lexical" else asks(FAITHFULNESS, openai)
    scorers: dict[str, Judge] = {}
    for name in config.scorers:
        if config.engine_of(name) == "lexical":
            scorers[name] = _local(name, golds)
        else:
            asked = asks(name, openai)
            scorers[name] = ReferenceJudge(asked, golds) if name == "correctness" else asked
    if (second := config.second_openai) is not None:
        own = Pool(second, keys, budget, metrics, clock, config.concurrency, share)
        scorers[SECOND] = asks(SECOND, second, own)
    return Judges(judge, scorers)


def own_draws(config: Config, golds: Golds) -> list[OwnDraw]:
    """Return how the scorers beside faithfulness are drawn."""
    draws = [
        OwnDraw(name, scorer.rate, partial(applies, name, golds=golds))
        for name, scorer in config.judge.scorers.items()
    ]
    if (second := config.judge.second) is not None:
        draws.append(OwnDraw(SECOND, second.rate, partial(applies, SECOND), nested=True))
    return draws


def golds_of(config: Config) -> Golds:
    """Read the golden questions where a scorer needs them; none while there is no file yet.

    Raises:
        UsageError: the file cannot be used.
    """
    path = config.review.golden_file
    if not config.judge.golden_scorers or path is None or not path.exists():
        return NO_GOLDS
    return Golds(
        {
            row.question: Gold(row.reference_answer if row.answerable else None, row.gold_sources)
            for row in golden_file.load(path)
            if not row.extra.get("draft")
        }
    )


def _local(name: ScorerName, golds: Golds) -> Judge:
    scorer = local_scorer(name, golds)
    return ReferenceJudge(scorer, golds) if name == "correctness" else scorer
