"""What the judge is expected to say of a request, learned from judged requests of the past.

The prediction is made when a request is decided on, by a calibration that was fitted before, and
stored with the decision. So it never depends on the verdict it stands beside, and the estimate may
lean on it for all the requests that nobody judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import structlog

from collector.errors import DependencyError
from collector.model import Calibration, Decision
from collector.ports import Store
from collector.timing import Clock
from scorers.stats import score_calibration
from scorers.stats.score_calibration import ScoreCalibration

MIN_HISTORY = 200
"""Judged requests that a first calibration takes."""

_MOST = 20_000
_REACH = timedelta(days=30)
_REFIT_AFTER = timedelta(days=1)
_LOOK_SECONDS = 60.0
_COMPLAINT, _SILENT = "complaint", "none"

log = structlog.get_logger()


class Covariate:
    """Foresees judgements for new decisions, and refits itself as more is judged.

    Args:
        store: where calibrations and judged requests are.
        scorer: whose judgements are foreseen.
        fingerprint: of the judge; those of any other teach nothing here.
        clock: the time.
    """

    def __init__(self, store: Store, scorer: str, fingerprint: str, clock: Clock) -> None:
        self._store = store
        self._judge = {"scorer": scorer, "fingerprint": fingerprint}
        self._clock = clock
        self._current: Calibration | None = None
        self._model: ScoreCalibration | None = None

    def foreseen(self, decision: Decision, local_score: float | None) -> Decision:
        """Return the decision with its predictions, as it is where there is no calibration yet."""
        if self._current is None or self._model is None or local_score is None:
            return decision
        return msgspec.structs.replace(
            decision,
            prediction=float(self._model.predict(local_score, _SILENT)),
            complaint_prediction=float(self._model.predict(local_score, _COMPLAINT)),
            calibration=self._current.version,
        )

    async def keep_fitted(self) -> None:
        """Look every minute whether it is time to refit; runs until it is cancelled."""
        await _every_minute(self.refit_if_due)

    async def follow(self) -> None:
        """Look every minute for what another process has fitted; runs until it is cancelled."""
        await _every_minute(self._newest)

    async def refit_if_due(self) -> None:
        """Take up the newest stored calibration, and fit a new one where that is due.

        It is once a day, and whenever twice as much has been judged as it was fitted to.

        Raises:
            DependencyError: the store does not answer.
        """
        if self._due(await self._newest()) and (fitted := await self._fit()) is not None:
            await self._store.write_calibration(fitted)
            self._take_up(fitted)
            log.info("calibrated", version=fitted.version, judged=fitted.n)

    async def _newest(self) -> int:
        """Take up the newest stored calibration; return how much has been judged."""
        (row,) = await self._store.rows("calibrations", dict(self._judge))
        if row["version"] and (self._current is None or row["version"] > self._current.version):
            self._take_up(_stored(row, self._judge))
        return int(row["judged"])

    def _due(self, judged: int) -> bool:
        if judged < MIN_HISTORY:
            return False
        if self._current is None:
            return True
        age = self._clock.now() - self._current.fitted_at
        return age >= _REFIT_AFTER or (self._current.n < _MOST and judged >= 2 * self._current.n)

    async def _fit(self) -> Calibration | None:
        """Fit to the judged requests of the past, None where they teach nothing."""
        now = self._clock.now()
        history = await self._store.rows(
            "judged_history",
            {"since": now - _REACH, "until": now, "segment": "", "most": _MOST, **self._judge},
        )
        model = await asyncio.to_thread(_fitted, history)
        if model is None:
            return None
        return Calibration(
            **self._judge,
            version=f"{now:%Y%m%dT%H%M%S.%fZ}",
            fitted_at=now,
            n=len(history),
            model=msgspec.json.encode(model).decode(),
        )

    def _take_up(self, calibration: Calibration) -> None:
        self._model = msgspec.json.decode(calibration.model, type=ScoreCalibration)
        self._current = calibration


def _fitted(history: Sequence[Mapping[str, Any]]) -> ScoreCalibration | None:
    if len(history) < MIN_HISTORY:
        return None
    return score_calibration.fit(
        [row["score"] for row in history],
        [row["lexical_score"] for row in history],
        [_COMPLAINT if row["raised"] else _SILENT for row in history],
        [row["probability"] for row in history],
    )


def _stored(row: Mapping[str, Any], judge: Mapping[str, str]) -> Calibration:
    return Calibration(
        **judge,
        version=row["version"],
        fitted_at=row["fitted_at"],
        n=int(row["n"]),
        model=row["model"],
    )


async def _every_minute(look: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await look()
        except DependencyError as err:
            log.warning("calibration_failed", error=type(err).__name__)
        await asyncio.sleep(_LOOK_SECONDS)
