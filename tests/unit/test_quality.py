"""Counters of which `increase()` sees everything: new series, restarts, what was not scraped."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter

from collector.quality import QualityCounters

LABELS = ("bot", "lookup", "j")


class Replica:
    """One process with its counters, as a scrape shows them."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        names = ["service", "segment", "judge"]
        self.counters = QualityCounters(
            {key: Counter(key, key, names, registry=self._registry) for key in ("w", "wl")}
        )

    def scraped(self, name: str = "w") -> float | None:
        self.counters.scrape()
        labels = dict(zip(("service", "segment", "judge"), LABELS, strict=True))
        return self._registry.get_sample_value(f"{name}_total", labels)


def test_a_new_series_is_seen_as_zero_before_it_counts() -> None:
    replica = Replica()
    replica.counters.add(LABELS, {"w": 4.0, "wl": 1.0})
    replica.counters.add(LABELS, {"w": 2.0})
    assert (replica.scraped(), replica.scraped()) == (0.0, 6.0)
    replica.counters.add(LABELS, {"w": 1.0})
    assert (replica.scraped(), replica.scraped("wl")) == (7.0, 1.0)


def test_an_announced_series_counts_from_its_second_scrape_on() -> None:
    replica = Replica()
    replica.counters.announce(LABELS)
    assert replica.scraped() == 0.0
    replica.counters.add(LABELS, {"w": 4.0})
    assert replica.scraped() == 4.0


def test_what_no_scrape_has_shown_goes_on_in_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "unscraped.json"
    first, second, third = Replica(), Replica(), Replica()
    first.counters.take_over(path)
    for amount in (4.0, 2.0):
        first.counters.add(LABELS, {"w": amount, "wl": 0.5})
    assert (first.scraped(), first.scraped()) == (0.0, 6.0)
    first.counters.add(LABELS, {"w": 3.0, "wl": 0.25})
    first.counters.hand_over(path)
    second.counters.take_over(path)
    assert (second.scraped(), second.scraped()) == (0.0, 3.0)
    assert second.scraped("wl") == 0.25
    second.counters.hand_over(path)
    third.counters.take_over(path)
    third.counters.announce(LABELS)
    assert (third.scraped(), third.scraped()) == (0.0, 0.0)


@pytest.mark.parametrize("content", ["", "{", "[[1]]", "null", '[[["a"], {"w": "x"}]]'])
def test_a_broken_file_is_left_out(tmp_path: Path, content: str) -> None:
    path = tmp_path / "unscraped.json"
    path.write_text(content)
    replica = Replica()
    replica.counters.take_over(path)
    replica.counters.announce(LABELS)
    assert (replica.scraped(), replica.scraped()) == (0.0, 0.0)
