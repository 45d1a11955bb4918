"""Turns a cheap score into a calibrated prediction of the judge's, from past judged requests.

A prediction-powered estimate with the raw cheap score can be worse than none; calibrated, it
never costs much. Refit daily on judged requests older than any window it is used in, and store
the version with every prediction.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BINS = 7
PSEUDO_COUNT = 5.0
"""Quantile bins, and how many average requests are added to each bin and stratum."""

MIN_REQUESTS = 50
"""Fewer judged requests than this say too little about seven bins."""


class ScoreCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """A step function of the cheap score plus an offset per stratum, and how far it missed.

    `edges` are the inner borders of the bins of the cheap score, `means` one value per bin and
    one for a missing cheap score (last), `offsets` one per stratum. `sd_edges` border bins of
    the prediction, `sds` are the standard deviations of score - prediction in them, and
    `mean_sd` their mean over past traffic.
    """

    edges: list[float]
    means: list[float]
    offsets: dict[str, float]
    sd_edges: list[float]
    sds: list[float]
    mean_sd: float

    def predict(self, cheap: npt.ArrayLike, stratum: str) -> Floats:
        """Return the predicted score in [0, 1] of requests of one stratum.

        Args:
            cheap: cheap scores, any shape; NaN where there is none.
            stratum: of all of them; one not seen in the past gets no offset.
        """
        means = np.asarray(self.means)[_bins(self.edges, np.asarray(cheap, dtype=float))]
        return np.clip(means + self.offsets.get(stratum, 0.0), 0.0, 1.0)

    def residual_sd(self, predictions: npt.ArrayLike) -> Floats:
        """Return the past standard deviation of score - prediction, same shape."""
        return np.asarray(self.sds)[_bins(self.sd_edges, np.asarray(predictions, dtype=float))]


def fit(
    scores: Sequence[float],
    cheap: Sequence[float | None],
    strata: Sequence[str],
    probabilities: Sequence[float],
) -> ScoreCalibration | None:
    """Fit a calibration to past judged requests.

    Args:
        scores: the judge's scores in [0, 1].
        cheap: the cheap score of each, None where there is none.
        strata: the signal stratum of each.
        probabilities: the inclusion probability of each, 0 < p <= 1.

    Returns:
        None where fewer than 50 requests, or a cheap score that never varies, teach nothing.

    Raises:
        ValueError: lengths differ, or a probability is outside its range.
    """
    y, p = np.asarray(scores, dtype=float), np.asarray(probabilities, dtype=float)
    f = np.array([np.nan if value is None else value for value in cheap], dtype=float)
    if not y.size == f.size == p.size == len(strata):
        raise ValueError("scores, cheap, strata and probabilities must be of one length")
    if not ((p > 0.0) & (p <= 1.0)).all():
        raise ValueError("probabilities holds a value outside (0, 1]")
    known = f[~np.isnan(f)]
    if y.size < MIN_REQUESTS or not known.size or known.min() == known.max():
        return None
    weights = (1.0 / p) / np.mean(1.0 / p)
    edges = _quantile_edges(f, weights)
    means = _shrunk_means(y, weights, _bins(edges, f), len(edges) + 2)
    missed = y - means[_bins(edges, f)]
    offsets = {
        name: float((weights[at] @ missed[at]) / (weights[at].sum() + PSEUDO_COUNT))
        for name in sorted(set(strata))
        for at in [np.array([stratum == name for stratum in strata])]
    }
    shift = np.array([offsets[stratum] for stratum in strata])
    predicted = np.clip(means[_bins(edges, f)] + shift, 0.0, 1.0)
    sd_edges = _quantile_edges(predicted, weights)
    place = _bins(sd_edges, predicted)
    sds = np.sqrt(_shrunk_means((y - predicted) ** 2, weights, place, len(sd_edges) + 2))
    return ScoreCalibration(
        edges=edges,
        means=means.tolist(),
        offsets=offsets,
        sd_edges=sd_edges,
        sds=sds.tolist(),
        mean_sd=float(np.average(sds[place], weights=weights)),
    )


def _quantile_edges(values: Floats, weights: Floats) -> list[float]:
    """Return the inner borders of weighted quantile bins, without repeats."""
    known = ~np.isnan(values)
    order = np.argsort(values[known])
    share = np.cumsum(weights[known][order]) / weights[known].sum()
    at = np.searchsorted(share, np.arange(1, BINS) / BINS)
    return [float(edge) for edge in np.unique(values[known][order][at])]


def _bins(edges: list[float], values: Floats) -> npt.NDArray[np.intp]:
    """Return the bin of each value; the last bin, len(edges) + 1, is that of NaN."""
    found = np.searchsorted(np.asarray(edges), values, side="right")
    return np.where(np.isnan(values), len(edges) + 1, found)


def _shrunk_means(
    values: Floats, weights: Floats, place: npt.NDArray[np.intp], bins: int
) -> Floats:
    """Return the weighted mean per bin, each with pseudo-counts of the overall mean."""
    overall = float(np.average(values, weights=weights))
    sums = np.bincount(place, weights * values, bins) + PSEUDO_COUNT * overall
    return np.asarray(sums / (np.bincount(place, weights, bins) + PSEUDO_COUNT))
