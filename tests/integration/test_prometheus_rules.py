"""The recording rules compute what the estimator computes, over replicas and restarts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from dashboards import prometheus_rules
from scorers.stats.weighted import Sums, estimate

pytestmark = pytest.mark.prometheus
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


def test_two_replicas_and_a_restart_give_the_estimate_of_the_same_sums(tmp_path: Path) -> None:
    minutes = 60 + 59  # two replicas over an hour, one of which misses a minute to restart
    found = estimate(
        Sums(
            n=3 * minutes,
            w=8.0 * minutes,
            wl=0.5 * minutes,
            wll=0.125 * minutes,
            w2=24.0 * minutes,
            w2l=1.0 * minutes,
            w2ll=0.25 * minutes,
            max_w=4.0,
            min_w=2.0,
        )
    )
    expected = {
        "mean": found.mean,
        "n_eff": found.n_eff,
        "low": found.low,
        "high": found.high,
        "failed_share": 0.2,
    }
    labels = 'service="bot", segment="lookup", judge="j"'
    series = []
    for name, step in EACH_MINUTE.items():
        metric = f"groundwatch_faithfulness_{name}_total"
        steady = f"0+{step}x60"
        restarted = f"0+{step}x30 0+{step}x30"  # its counters begin again at 0
        series += [
            {"series": f'{metric}{{instance="a", {labels}}}', "values": steady},
            {"series": f'{metric}{{instance="b", {labels}}}', "values": restarted},
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
                        "expr": f"round(segment:groundwatch_faithfulness_{name}:1h, 0.001)",
                        "eval_time": "60m",
                        "exp_samples": [{"labels": f"{{{labels}}}", "value": value}],
                    }
                    for name, value in expected.items()
                    if value is not None
                    for value in [round(value, 3)]
                ],
            }
        ],
    }
    path = tmp_path / "test.yml"
    YAML(typ="safe", pure=True).dump(test, path)
    done = subprocess.run(
        ["promtool", "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
