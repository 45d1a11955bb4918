"""Estimates in PromQL, on top of the recording rules, and SQL on top of the store's queries.

Several segments are added by their requests. The interval of the sum is put together from those
of the segments (MOVER; Zou and Donner, Statistics in Medicine 27, 2008): for one it is its own.
"""

from __future__ import annotations

import re
from importlib import resources

from dashboards.grafana.frame import JUDGED
from dashboards.grafana.panels import Prom
from sinks.named_queries import packaged_queries

_PARAMETER = re.compile(r"\{(\w+):[^{}]*\}")
_PART = re.compile(r"\{\{ (\w+) \}\}")
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)
_PLACES = {
    "since": "$__fromTime",
    "until": "$__toTime",
    "scorer": "'faithfulness'",
    "fingerprint": "${judge:sqlstring}",
    "segment": "''",
    "limit": "50",
    "conversations": "emptyArrayString()",
    "trace_ids": "emptyArrayString()",
    "times": "emptyArrayDateTime()",
}


TRUST_WHY = (
    "What labels of people say. trusted: read the level. weak, or uncalibrated (too few labels"
    " yet): read the trend only. not trusted: read nothing. groundwatch calibration says why."
)


def trust() -> Prom:
    """Return the word for the judge; of several agents that differ, the worst."""
    words = 'min by (trust) (groundwatch_judge_trusted{judge="$judge"})'
    return Prom(f"bottomk(1, {words})", "{{trust}}")


def recorded(quantity: str) -> str:
    """Return a recorded quantity of each selected segment."""
    return f"segment:groundwatch_faithfulness_{quantity}:$window{{{JUDGED}}}"


def together(by: str = "") -> str:
    """Return the mean over the selected segments, or over those with the same labels `by`."""
    mean, requests = recorded("mean"), recorded("requests")
    return f"sum{by} ({mean} * {requests}) / sum{by} ({requests} and {mean})"


def low(by: str = "") -> str:
    """Return the lower end of its interval at 95 %."""
    return f"clamp_min({together(by)} - {_half('mean', 'low', by)}, 0)"


def high(by: str = "") -> str:
    """Return the upper end of its interval at 95 %."""
    return f"clamp_max({together(by)} + {_half('high', 'mean', by)}, 1)"


def _half(upper: str, lower: str, by: str) -> str:
    requests = recorded("requests")
    parts = f"({requests} * ({recorded(upper)} - {recorded(lower)})) ^ 2"
    return f"sqrt(sum{by} ({parts})) / sum{by} ({requests} and {recorded('mean')})"


def n_eff(by: str = "") -> str:
    """Return how many equally weighted answers would tell as much."""
    return f"sum{by} ({recorded('w')}) ^ 2 / (sum{by} ({recorded('w2')}) > 0)"


def sql(name: str) -> str:
    """Return a query of this folder's `queries`, with what `{{ part }}` stands for in it.

    A part is a file of `queries/parts`, or else a query of the store, in which Grafana's macros
    stand in place of the parameters: panels and reports count by the same words.
    """
    folder = resources.files("dashboards.grafana") / "queries"
    return _filled((folder / f"{name}.sql").read_text("utf-8"))


def _filled(text: str) -> str:
    return _PART.sub(lambda found: _part(found[1]), _COMMENT.sub("", text)).strip()


def _part(name: str) -> str:
    file = resources.files("dashboards.grafana") / "queries" / "parts" / f"{name}.sql"
    if file.is_file():
        return _filled(file.read_text("utf-8"))
    return _PARAMETER.sub(lambda found: _PLACES[found[1]], packaged_queries()[name].sql)


def zero_for(label: str, expr: str, value: str = "none") -> str:
    """Return counts by a label, or a plain 0 while nothing was counted yet."""
    return f'({expr}) or on() label_replace(vector(0), "{label}", "{value}", "", "")'
