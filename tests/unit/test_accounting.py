"""Every eligible request is in exactly one state, and weights undo the sampling."""

from datetime import UTC, datetime

import msgspec
import pytest

from collector.accounting import Accounting
from collector.model import Decision, Judgement, JudgeTask, RagRequest, StoredRequest
from collector.telemetry import Metrics


def row(*, sampled: bool = True, ineligible: str | None = None) -> StoredRequest:
    return StoredRequest(
        request=RagRequest(trace_id="a", service="bot", segment="lookup"),
        version=1,
        decision=Decision(
            sampled=sampled,
            probability=0.25,
            uniform=0.1,
            stratum="all",
            salt="s",
            decided_at=datetime(2026, 11, 23, tzinfo=UTC),
        ),
        ineligible=ineligible,
    )


TASK = JudgeTask(request=row().request, version=1, probability=0.25)


def judgement(score: float | None, status: str = "judged", reason: str | None = None) -> Judgement:
    return Judgement(
        trace_id="a",
        scorer="faithfulness",
        fingerprint="f",
        status=status,  # type: ignore[arg-type]
        score=score,
        reason=reason,
    )


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"groundwatch_{name}", labels)


def difference(metrics: Metrics) -> float | None:
    return value(metrics, "accounting_difference")


def test_a_request_moves_from_waiting_to_judged_with_its_weight(metrics: Metrics) -> None:
    accounting = Accounting(metrics, "f")
    labels = {"service": "bot", "segment": "lookup"}
    accounting.stored(row(), first=True, newly_eligible=True)
    assert value(metrics, "requests_waiting", **labels) == 1
    assert difference(metrics) == 0
    accounting.finished(TASK, judgement(0.75))
    assert value(metrics, "requests_waiting", **labels) == 0
    assert value(metrics, "requests_judged_total", **labels) == 1
    accounting.quality.scrape()
    accounting.quality.scrape()
    # w = 1 / 0.25 = 4, loss = 0.25
    quality = {**labels, "judge": "f"}
    assert value(metrics, "faithfulness_weight_total", **quality) == 4
    assert value(metrics, "faithfulness_weighted_loss_total", **quality) == 1
    assert value(metrics, "faithfulness_squared_weight_loss_squared_total", **quality) == 1
    assert difference(metrics) == 0


@pytest.mark.parametrize(
    ("outcome", "weight"),
    [
        (judgement(None, "failed", "timeout"), 4.0),
        (judgement(None, "unscored", "no_claims"), 0.0),
    ],
)
def test_a_failure_is_counted_with_its_cause_and_is_no_score(
    metrics: Metrics, outcome: Judgement, weight: float | None
) -> None:
    accounting = Accounting(metrics, "f")
    accounting.stored(row(), first=True, newly_eligible=True)
    accounting.finished(TASK, outcome)
    accounting.quality.scrape()
    accounting.quality.scrape()
    labels = {"service": "bot", "segment": "lookup"}
    assert value(metrics, "requests_failed_total", **labels, reason=outcome.reason or "") == 1
    assert value(metrics, "faithfulness_failed_weight_total", **labels, judge="f") == weight
    assert value(metrics, "faithfulness_judged_total", **labels, judge="f") == 0
    assert difference(metrics) == 0


def test_what_cannot_be_judged_is_no_part_of_the_accounting(metrics: Metrics) -> None:
    Accounting(metrics, "f").stored(row(ineligible="no_claims"), first=True, newly_eligible=False)
    labels = {"service": "bot", "segment": "lookup"}
    assert value(metrics, "requests_total", **labels) == 1
    assert value(metrics, "requests_ineligible_total", **labels, reason="no_claims") == 1
    assert value(metrics, "requests_eligible_total", **labels) == 0
    assert difference(metrics) == 0


def test_work_left_by_an_earlier_process_is_carried_over(metrics: Metrics) -> None:
    accounting = Accounting(metrics, "f")
    accounting.carried(TASK)
    assert difference(metrics) == 0
    accounting.finished(TASK, judgement(1.0))
    assert difference(metrics) == 0


def test_a_forgotten_request_shows_in_the_difference(metrics: Metrics) -> None:
    accounting = Accounting(metrics, "f")
    accounting.stored(row(), first=True, newly_eligible=True)
    metrics.waiting.labels("bot", "lookup").dec()
    assert difference(metrics) == 1


def test_services_are_bounded(metrics: Metrics) -> None:
    accounting = Accounting(metrics, "f", max_services=2)
    for service in ("a", "b", "c", None):
        request = RagRequest(trace_id="a", service=service, segment="s")
        names = accounting.traffic_labels(request)
        assert names[0] == {"a": "a", "b": "b", "c": "other", None: "unknown"}[service]


def test_counters_are_there_as_zero_before_they_count(metrics: Metrics) -> None:
    Accounting(metrics, "f").announce("bot", "lookup")
    labels = {"service": "bot", "segment": "lookup"}
    assert value(metrics, "requests_judged_total", **labels) == 0
    assert value(metrics, "faithfulness_weighted_loss_total", **labels, judge="f") == 0


def test_a_version_of_the_assistant_is_dated_when_it_is_first_seen(metrics: Metrics) -> None:
    accounting = Accounting(metrics, "judge-1")
    accounting.deployed("bot", "1.4", datetime(2026, 11, 3, tzinfo=UTC))
    accounting.deployed("bot", "1.5", datetime(2026, 11, 4, tzinfo=UTC))
    accounting.deployed("bot", "1.4", datetime(2026, 11, 5, tzinfo=UTC))
    (family,) = metrics.version_seen.collect()
    seen = {s.labels["version"]: s.value for s in family.samples}
    assert seen == {
        "1.4": datetime(2026, 11, 3, tzinfo=UTC).timestamp(),
        "1.5": datetime(2026, 11, 4, tzinfo=UTC).timestamp(),
    }


def test_other_scores_add_up_under_their_own_name_and_leave_faithfulness_alone(
    metrics: Metrics,
) -> None:
    accounting = Accounting(metrics, "f", scorers={"refusal": "r"})
    decided = msgspec.structs.replace(
        row().decision, scorer_probability={"refusal": 0.1}, scorers_drawn=["refusal"]
    )
    stored = msgspec.structs.replace(row(), decision=decided)
    accounting.stored(stored, first=True, newly_eligible=True)
    accounting.stored(stored, first=False, newly_eligible=False, scored_before={"refusal"})
    task = msgspec.structs.replace(TASK, scorer="refusal", probability=0.1)
    refusal = msgspec.structs.replace(judgement(0.25), scorer="refusal", fingerprint="r")
    accounting.finished(task, refusal)
    failure = msgspec.structs.replace(refusal, status="failed", score=None, reason="timeout")
    accounting.finished(task, failure)
    for _ in range(2):
        accounting.quality.scrape()
        accounting.scores.scrape()
    labels = {"service": "bot", "segment": "lookup", "scorer": "refusal", "judge": "r"}
    found = {
        name: value(metrics, f"score_{name}_total", **labels)
        for name in ("requests", "judged", "weight", "weighted_loss", "failed_weight")
    }
    # w = 1 / 0.1, l = 1 - 0.25
    assert found == {
        "requests": 1,
        "judged": 1,
        "weight": 10,
        "weighted_loss": 7.5,
        "failed_weight": 10,
    }
    assert value(metrics, "requests_waiting", service="bot", segment="lookup") == 1
    main = {"service": "bot", "segment": "lookup", "judge": "f"}
    assert value(metrics, "faithfulness_weight_total", **main) == 0
    assert difference(metrics) == 0
