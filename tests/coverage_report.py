"""Does the published interval keep its promise? Simulated traffic with a known true mean.

`python -m tests.coverage_report [--replicates N]` draws hours of simulated traffic, samples
them by three designs, and lets the estimators of the product, display rule included, work on
each. Of the estimates displayed as normal, between 93 % and 99.5 % of the intervals must hold
the true mean, in every cell; and prediction-powered estimates from active sampling must be at
least 30 % narrower than plain ones from uniform sampling. Prints a table; exit code 1 otherwise.

Traffic: 2000 requests an hour; 4 % thumbs-down, 8 % rephrased, 8 % with a clicked citation.
An answer has 3 to 10 claims; one that is not fully faithful supports a random part of them.
`base` is the traffic the method was tuned on, the other four were held out. The cheap score is
calibrated on 2000 judged requests of earlier traffic, anew in every block of hours.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scorers.stats import ppi, score_calibration, weighted
from scorers.stats.score_calibration import ScoreCalibration
from scorers.stats.weighted import Estimate, Sums
from tests import conversation_coverage

Floats = npt.NDArray[np.float64]

STRATA = ("thumbs_down", "rephrase", "neutral", "citation_click")
SHARES = (0.04, 0.08, 0.80, 0.08)
REQUESTS = 2000
HISTORY = 2000
SAMPLE_SIZES = (15, 30, 60, 120, 300)
DESIGNS = ("uniform", "active", "signal20x")
SIGNAL_FACTORS = np.array([20.0, 5.0, 1.0, 1.0])
BLOCK = 250
NOISE = 0.195
COVERAGE = (0.93, 0.995)
LARGEST_WIDTH_RATIO = 0.70
ENOUGH = 400
"""Cells with fewer normal displays than this say nothing: they are printed, not judged."""


class Generator(NamedTuple):
    """Share of answers that are not fully faithful, by stratum; `binary` ones score 0."""

    name: str
    bad: tuple[float, float, float, float]
    binary: bool

    @property
    def true_mean(self) -> float:
        """The mean score over all traffic there could be."""
        loss = 1.0 if self.binary else np.mean([(c + 1) / (2 * c) for c in range(3, 11)])
        return float(1.0 - np.dot(SHARES, self.bad) * loss)


GENERATORS = (
    Generator("base", (0.60, 0.25, 0.12, 0.05), binary=False),
    Generator("good", (0.12, 0.05, 0.024, 0.01), binary=False),
    Generator("poor", (0.95, 0.70, 0.365, 0.15), binary=False),
    Generator("binary", (0.60, 0.25, 0.12, 0.05), binary=True),
    Generator("good_binary", (0.12, 0.05, 0.024, 0.01), binary=True),
)


class Traffic(NamedTuple):
    """Hours of traffic: arrays of shape (hours, requests)."""

    strata: npt.NDArray[np.intp]
    scores: Floats
    cheap: Floats


def draw_traffic(rng: np.random.Generator, generator: Generator, hours: int, n: int) -> Traffic:
    """Draw hours of n requests each."""
    strata = np.searchsorted(np.cumsum(SHARES)[:-1], rng.random((hours, n)), side="right")
    bad = rng.random((hours, n)) < np.asarray(generator.bad)[strata]
    claims = rng.integers(3, 11, (hours, n))
    partial = np.floor(rng.random((hours, n)) * claims) / claims
    scores = np.where(bad, 0.0 if generator.binary else partial, 1.0)
    cheap = np.clip(0.3 + 0.6 * scores + NOISE * rng.standard_normal((hours, n)), 0.0, 1.0)
    return Traffic(strata, scores, cheap)


def calibrate(rng: np.random.Generator, generator: Generator) -> ScoreCalibration:
    """Fit the calibration to earlier, uniformly judged traffic."""
    past = draw_traffic(rng, generator, 1, HISTORY)
    fitted = score_calibration.fit(
        past.scores[0].tolist(),
        past.cheap[0].tolist(),
        [STRATA[i] for i in past.strata[0]],
        [0.1] * HISTORY,
    )
    if fitted is None:
        raise RuntimeError("the simulated history was too small to calibrate on")
    return fitted


def predict(calibration: ScoreCalibration, traffic: Traffic) -> Floats:
    """Predict every score of the traffic."""
    predictions = np.empty_like(traffic.cheap)
    for index, stratum in enumerate(STRATA):
        at = traffic.strata == index
        predictions[at] = calibration.predict(traffic.cheap[at], stratum)
    return predictions


def inclusion(
    design: str, traffic: Traffic, predictions: Floats, calibration: ScoreCalibration, n: int
) -> Floats:
    """Return the inclusion probability of every request, n judged in expectation."""
    rate = n / REQUESTS
    if design == "uniform":
        return np.full(traffic.scores.shape, rate)
    if design == "signal20x":
        by_stratum = SIGNAL_FACTORS * rate / np.dot(SHARES, SIGNAL_FACTORS)
        return np.asarray(np.minimum(by_stratum, 1.0)[traffic.strata])
    by_bin: Floats = np.array(
        [ppi.streaming_probability(rate, sd, calibration.mean_sd) for sd in calibration.sds]
    )
    places = np.searchsorted(calibration.sd_edges, predictions, side="right")
    return np.asarray(by_bin[places])


def windows(
    traffic: Traffic, predictions: Floats, probabilities: Floats, drawn: npt.NDArray[np.bool_]
) -> Iterator[ppi.PpiSums]:
    """Yield the sums of each hour, as the product would add them up."""
    w = np.where(drawn, 1.0 / probabilities, 0.0)
    loss, miss = 1.0 - traffic.scores, 1.0 - predictions
    wl, wh, w2 = w * loss, w * miss, w * w
    totals = {
        "w": w,
        "wl": wl,
        "wll": wl * loss,
        "w2": w2,
        "w2l": w2 * loss,
        "w2ll": wl * wl,
        "h": miss,
        "wh": wh,
        "wlh": wl * miss,
        "whh": wh * miss,
        "w2h": w2 * miss,
        "w2lh": wl * wh,
        "w2hh": wh * wh,
    }
    added = {name: part.sum(axis=1).tolist() for name, part in totals.items()}
    largest = w.max(axis=1).tolist()
    smallest = np.where(drawn, w, np.inf).min(axis=1).tolist()
    for hour, n in enumerate(drawn.sum(axis=1).tolist()):
        row = {name: column[hour] for name, column in added.items()}
        judged = Sums(
            n=n,
            max_w=largest[hour],
            min_w=smallest[hour] if n else 0.0,
            **{name: row.pop(name) for name in ("w", "wl", "wll", "w2", "w2l", "w2ll")},
        )
        yield ppi.PpiSums(judged=judged, requests=REQUESTS, predicted=REQUESTS, **row)


class Cell:
    """What one estimator did in one cell."""

    def __init__(self) -> None:
        self.tried = self.normal = self.covered = 0
        self.width = 0.0
        self.methods: set[str] = set()

    def add(self, found: Estimate, true_mean: float) -> None:
        """Count one estimate if it would be displayed as normal."""
        self.tried += 1
        if found.display != "normal" or found.low is None or found.high is None:
            return
        self.normal += 1
        self.covered += found.low <= true_mean <= found.high
        self.width += found.high - found.low
        self.methods.add(found.method)

    @property
    def coverage(self) -> float:
        """Share of the normal displays whose interval held the true mean."""
        return self.covered / self.normal if self.normal else float("nan")

    @property
    def mean_width(self) -> float:
        """Mean width of the intervals displayed as normal."""
        return self.width / self.normal if self.normal else float("nan")


Key = tuple[str, str, int, str]


def simulate(replicates: int, seed: int) -> tuple[dict[Key, Cell], float]:
    """Run all cells; return them by (generator, design, n, estimator), and corr(score, cheap)."""
    cells: dict[Key, Cell] = {}
    correlations: list[float] = []
    for generator in GENERATORS:
        rng = np.random.default_rng([seed, GENERATORS.index(generator)])
        for _ in range(replicates // BLOCK):
            calibration = calibrate(rng, generator)
            traffic = draw_traffic(rng, generator, BLOCK, REQUESTS)
            predictions = predict(calibration, traffic)
            if generator.name == "base":
                both = np.corrcoef(traffic.scores.ravel(), traffic.cheap.ravel())
                correlations.append(float(both[0, 1]))
            for design in DESIGNS:
                for n in SAMPLE_SIZES:
                    p = inclusion(design, traffic, predictions, calibration, n)
                    drawn = rng.random(p.shape) < p
                    for sums in windows(traffic, predictions, p, drawn):
                        for name, found in (
                            ("plain", weighted.estimate(sums.judged)),
                            ("ppi", ppi.estimate(sums)),
                        ):
                            cell = cells.setdefault((generator.name, design, n, name), Cell())
                            cell.add(found, generator.true_mean)
    return cells, float(np.mean(correlations))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 where a promise is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replicates", type=int, default=2000, help="hours per cell")
    parser.add_argument("--seed", type=int, default=20260101)
    options = parser.parse_args(arguments)
    if options.replicates < ENOUGH or options.replicates % BLOCK:
        parser.error(f"--replicates must be a multiple of {BLOCK}, and at least {ENOUGH}")
    started = time.monotonic()
    cells, correlation = simulate(options.replicates, options.seed)
    broken = [key for key, cell in cells.items() if verdict(cell) == "BROKEN"]
    for line in table(cells):
        print(line)
    conversations = list(conversation_coverage.simulate(options.replicates, options.seed))
    print(f"\n{conversation_coverage.HEADER}")
    for one in conversations:
        print(one.line())
    active, uniform = cells["base", "active", 60, "ppi"], cells["base", "uniform", 60, "plain"]
    ratio = active.mean_width / uniform.mean_width
    judged = [cell.coverage for cell in cells.values() if cell.normal >= ENOUGH]
    print(
        f"\n{len(judged)} cells displayed as normal: coverage {min(judged):.3f} to "
        f"{max(judged):.3f} (promised {COVERAGE[0]} to {COVERAGE[1]}), {len(broken)} broken"
        f"\nwidth of active ppi / uniform plain at 60 judged, corr {correlation:.2f}: "
        f"{ratio:.2f} (promised at most {LARGEST_WIDTH_RATIO})"
        f"\n{options.replicates} hours per cell, {time.monotonic() - started:.0f} s"
    )
    kept = not broken and not any(one.broken for one in conversations)
    return int(not (kept and ratio <= LARGEST_WIDTH_RATIO))


def verdict(cell: Cell) -> str:
    """Return whether a cell keeps the promise, or is too rarely normal to say."""
    if cell.normal < ENOUGH:
        return "not normal"
    return "ok" if COVERAGE[0] <= cell.coverage <= COVERAGE[1] else "BROKEN"


def table(cells: dict[Key, Cell]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "traffic      design     n    estimator normal coverage width  verdict     method"
    for (generator, design, n, name), cell in cells.items():
        yield (
            f"{generator:<12} {design:<10} {n:<4} {name:<9} {cell.normal / cell.tried:>5.0%} "
            f"{cell.coverage:>8.3f} {cell.mean_width:>6.3f}  {verdict(cell):<11} "
            f"{' '.join(sorted(cell.methods))}"
        )


if __name__ == "__main__":
    sys.exit(main())
