"""The recording rules compute what the estimator computes, over replicas and restarts."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from collector.telemetry import QUALITY
from dashboards import prometheus_rules
from scorers.stats import ppi, weighted
from scorers.stats.ppi import PpiSums
from scorers.stats.weighted import Estimate, Sums

pytestmark = pytest.mark.prometheus
LABELS = 'service="bot", segment="lookup", judge="j"'
RULES = Path(prometheus_rules.__file__).parent / "rules" / "recording.yml"

# What one replica counts in a minute: two answers of weight 2, one of them with a loss of 0.25,
# and an answer of weight 4 without any loss.
EACH_MINUTE = {
    "judged": 3.0,
    "weight": 8.0,
    "weighted_loss": 0.5,
    "weighted_loss_squared": 0.125,
    "squared_weight": 24.0,
    "squared_weight_loss": 1.0,
    "squared_weight_loss_squared": 0.25,
    "failed_weight": 2.0,
}


def test_the_rule_file_is_current_and_valid() -> None:
    assert RULES.read_text() == prometheus_rules.rendered()
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


# The same with predictions: ten requests a minute, foreseen losses of 0.25, 0 and 0.5 for the
# judged ones, and an answer of weight 2 without a claim, foreseen as 0.5.
PREDICTED_EACH_MINUTE = {
    "requests": 10.0,
    "predicted": 10.0,
    "predicted_loss": 4.0,
    "weighted_predicted_loss": 2.5,
    "weighted_loss_predicted_loss": 0.125,
    "weighted_predicted_loss_squared": 1.125,
    "squared_weight_predicted_loss": 9.0,
    "squared_weight_loss_predicted_loss": 0.25,
    "squared_weight_predicted_loss_squared": 4.25,
    "unscored_weight": 2.0,
    "unscored_weighted_predicted_loss": 1.0,
}
MINUTES = 60 + 59
"""Two replicas over an hour, one of which misses a minute to its restart."""

PPI_SUMS = PpiSums(
    judged=Sums(
        n=3 * MINUTES,
        w=8.0 * MINUTES,
        wl=0.5 * MINUTES,
        wll=0.125 * MINUTES,
        w2=24.0 * MINUTES,
        w2l=1.0 * MINUTES,
        w2ll=0.25 * MINUTES,
        max_w=4.0,
        min_w=2.0,
    ),
    requests=10 * MINUTES,
    predicted=10 * MINUTES,
    h=4.0 * MINUTES,
    wh=2.5 * MINUTES,
    wlh=0.125 * MINUTES,
    whh=1.125 * MINUTES,
    w2h=9.0 * MINUTES,
    w2lh=0.25 * MINUTES,
    w2hh=4.25 * MINUTES,
    w_unscored=2.0 * MINUTES,
    wh_unscored=1.0 * MINUTES,
)


def test_two_replicas_and_a_restart_give_the_estimate_of_the_same_sums(tmp_path: Path) -> None:
    check(tmp_path, EACH_MINUTE, weighted.estimate(PPI_SUMS.judged))


def test_where_requests_have_predictions_they_give_the_prediction_powered_one(
    tmp_path: Path,
) -> None:
    found = ppi.estimate(PPI_SUMS)
    assert found.method == "ppi_shrunk_wilson"
    check(tmp_path, EACH_MINUTE | PREDICTED_EACH_MINUTE, found)


def test_conversations_widen_the_interval_as_the_agent_says(tmp_path: Path) -> None:
    gauge = [{"series": f"groundwatch_faithfulness_design_effect{{{LABELS}}}", "values": "2x60"}]
    predicted = EACH_MINUTE | PREDICTED_EACH_MINUTE
    check(tmp_path, predicted, ppi.estimate(PPI_SUMS, design_effect=2.0), gauge)
    check(tmp_path, EACH_MINUTE, weighted.estimate(PPI_SUMS.judged, 2.0), gauge)


def check(
    folder: Path,
    each_minute: dict[str, float],
    found: Estimate,
    gauges: Sequence[dict[str, str]] = (),
) -> None:
    """Let promtool compare the rules over an hour of these counters with an estimate."""
    expected = {
        "mean": found.mean,
        "n_eff": found.n_eff,
        "variance": found.variance,
        "low": found.low,
        "high": found.high,
        "failed_share": 0.2,
    }
    series = list(gauges)
    for _, name, _ in QUALITY:
        metric = f"groundwatch_faithfulness_{name}_total"
        step = each_minute.get(name, 0.0)
        restarted = f"0+{step}x30 0+{step}x30"  # its counters begin again at 0
        series += [
            {"series": f'{metric}{{instance="a", {LABELS}}}', "values": f"0+{step}x60"},
            {"series": f'{metric}{{instance="b", {LABELS}}}', "values": restarted},
        ]
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": series,
                "promql_expr_test": [
                    {
                        "expr": f"round(1e5 * segment:groundwatch_faithfulness_{name}:1h)",
                        "eval_time": "60m",
                        "exp_samples": [{"labels": f"{{{LABELS}}}", "value": round(1e5 * value)}],
                    }
                    for name, value in expected.items()
                    if value is not None
                ],
            }
        ],
    }
    path = folder / "test.yml"
    YAML(typ="safe", pure=True).dump(test, path)
    done = subprocess.run(
        ["promtool", "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
