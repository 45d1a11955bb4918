"""How golden rows that came of production fare since: still failing, fixed, or back again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec

from collector.redaction import redact
from dashboards.candidate_states import CandidateState
from scorers.diagnosis_rows import passed
from sinks.golden_file import normalised, position_of_same

Row = Mapping[str, Any]


class Outcome(NamedTuple):
    """One answer to a golden question: when, whether it was good, and where it was given."""

    at: datetime
    passed: bool
    where: str


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a golden question stands.

    Attributes:
        name: `untried` without any answer, `failing` if no answer was ever good, `fixed` if the
            last one was, `regression` if one was and the last one was not.
        said: the same in words.
    """

    name: Literal["untried", "failing", "fixed", "regression"]
    said: str


def standing_of(outcomes: Iterable[Outcome]) -> Standing:
    """Return where a question stands by the answers to it, in any order."""
    known = sorted(outcomes)
    if not known:
        return Standing(name="untried", said="not asked since")
    last = known[-1]
    good = [outcome for outcome in known if outcome.passed]
    if last.passed:
        return Standing(name="fixed", said=f"fixed: right in {_told(last)}")
    if not good:
        return Standing(name="failing", said=f"not fixed yet: wrong in {_told(last)}")
    return Standing(
        name="regression", said=f"came back: right in {_told(good[-1])}, wrong in {_told(last)}"
    )


def _told(outcome: Outcome) -> str:
    return f"{outcome.where} on {outcome.at:%Y-%m-%d %H:%M}"


class GoldenHistory:
    """The candidates that people have touched, and what golden runs say of those exported.

    Args:
        states: of all candidates with events.
        results: rows of the query `golden_results`.
    """

    def __init__(self, states: Sequence[CandidateState], results: Iterable[Row]) -> None:
        self.states = states
        self._by_id = {state.candidate_id: state for state in states}
        self._asked = [state for state in states if state.row]
        self._questions = [normalised(state.row["question"]) for state in states if state.row]
        self._outcomes: dict[str, list[Outcome]] = {}
        for row in results:
            if (good := passed(row["diagnosis"])) is not None:
                outcome = Outcome(row["at"], good, f"run {row['run_id']}")
                self._outcomes.setdefault(row["question_id"], []).append(outcome)

    def of(self, candidate_id: str, question: str) -> CandidateState | None:
        """Return the candidate of this id, else one that asks the same; None if nobody has."""
        if candidate_id in self._by_id:
            return self._by_id[candidate_id]
        place = position_of_same(normalised(redact(question)), self._questions)
        return None if place is None else self._asked[place]

    def beside(self, ranked: Row) -> dict[str, Any] | None:
        """Return id, state and standing of the candidate that the worst turn of a conversation is.

        None where it is none, or nobody touched it.

        Args:
            ranked: row of the query `worst`.
        """
        state = self.of("", ranked["question"]) if ranked["question"] else None
        if state is None:
            return None
        standing = self.standing(state, ranked["started_at"])
        return {
            "id": state.candidate_id,
            "state": state.state,
            "standing": None if standing is None else msgspec.to_builtins(standing),
        }

    def standing(
        self, state: CandidateState, live_failure: datetime | None = None
    ) -> Standing | None:
        """Return how a row fares since it was exported; None where it was not.

        Args:
            state: of the candidate.
            live_failure: when it last failed in production, where it did.
        """
        if state.state != "exported":
            return None
        outcomes = list(self._outcomes.get(state.candidate_id, ()))
        if live_failure is not None:
            outcomes.append(Outcome(live_failure, False, "production"))  # noqa: FBT003
        return standing_of(outcomes)
