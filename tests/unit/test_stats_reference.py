"""Every published reference case, read in place, through the public functions."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scorers.stats import (
    agreement,
    clusters,
    inclusion,
    paired,
    planning,
    ppi,
    sequential,
    weighted,
)
from scorers.stats.agreement import Confusion
from scorers.stats.clusters import ClusterSums
from scorers.stats.intervals import shrunk_wilson, wilson
from scorers.stats.ppi import PpiSums
from scorers.stats.weighted import Sums

REFERENCE = Path(__file__).parents[2].parent / "shared/reference/statistics-reference.json"

Case = dict[str, Any]
Found = dict[str, Any]


def mixed_probabilities(i: Case) -> Found:
    sums = Sums.of(i["y"], i["p"])
    mean, variance = weighted.hajek(sums)
    loss = weighted.horvitz_thompson([1 - y for y in i["y"]], i["p"], i["N"])
    k = weighted.kish_n_eff(sums)
    return {
        "ht": weighted.horvitz_thompson(i["y"], i["p"], i["N"]).mean,
        "ht_complement": 1 - loss.mean,
        "ht_complement_var": loss.variance,
        "hajek": mean,
        "var_super": variance,
        "var_finite": weighted.finite_variance(sums),
        "kish_neff": k,
        "wilson_kish95": wilson(mean, k),
        "wilson_nstar95": wilson(mean, mean * (1 - mean) / variance),
        "wilson_shrunk95": shrunk_wilson(mean, variance, k, i["kappa"]),
    }


def all_ones(i: Case) -> Found:
    found = weighted.estimate(Sums.of(i["y"], i["p"]))
    return {
        "hajek": found.mean,
        "var_super": found.variance,
        "kish_neff": found.n_eff,
        "wilson_shrunk95": [found.low, found.high],
        "closed_form_lower": found.low,
    }


def empty(i: Case) -> Found:
    found = weighted.estimate(Sums.of(i["y"], i["p"]))
    return {
        "hajek": found.mean,
        "ci": found.low,
        "kish_neff": found.n_eff,
        "display": found.display.replace("_", " "),
    }


def naive_bias(i: Case) -> Found:
    # Each request stands for one of its stratum with the stratum's mean: what is expected.
    judged = [round(n * p) for n, p in zip(i["N"], i["p"], strict=True)]
    scores = [m for m, n in zip(i["stratum_mean"], judged, strict=True) for _ in range(n)]
    p = [p for p, n in zip(i["p"], judged, strict=True) for _ in range(n)]
    mean = weighted.hajek(Sums.of(scores, p)).mean
    naive = weighted.hajek(Sums.of(scores, [1.0] * len(p))).mean
    return {
        "true_mean": mean,
        "expected_naive": naive,
        "naive_bias": naive - mean,
        "expected_judged": len(p),
    }


def all_samples(i: Case) -> Found:
    y, p, n = i["y"], i["p"], len(i["y"])
    mean = second = variance = 0.0
    for drawn in itertools.product((False, True), repeat=n):
        chance = math.prod(q if d else 1 - q for q, d in zip(p, drawn, strict=True))
        found = weighted.horvitz_thompson(
            [v for v, d in zip(y, drawn, strict=True) if d],
            [q for q, d in zip(p, drawn, strict=True) if d],
            n,
        )
        mean += chance * found.mean
        second += chance * found.mean**2
        variance += chance * found.variance
    return {"E_ht": mean, "Var_ht": second - mean**2, "E_var_estimator": variance}


def ppi_disjoint(i: Case) -> Found:
    found = {}
    for name, lam in (("lam06", 0.6), ("lam_auto", None)):
        mean = ppi.mean_unweighted(i["Y"], i["Yhat"], i["Yhat_unlabeled"], lam)
        found[name] = {"est": mean.mean, "lo": mean.interval.low, "hi": mean.interval.high}
    return found


def ppi_weighted(i: Case) -> Found:
    sums = ppi.PpiSums.of(i["y"], i["f"], i["p"], requests=i["N"], h=i["N"] - i["F_sum_all"])
    best = ppi.optimal_lambda(sums)
    found: Found = {"lam_opt": best}
    for lam in (0.0, 0.5, best, 1.0):
        mean, variance = ppi.difference(sums, lam)
        found[f"lam={lam:.6f}"] = {
            "est": mean,
            "var_super": variance,
            "var_finite": ppi.finite_variance(sums, lam),
            "ci": shrunk_wilson(mean, variance, weighted.kish_n_eff(sums.judged), i["kappa"]),
        }
    return found


def active(i: Case) -> Found:
    p = ppi.active_probabilities(i["score"], i["n_budget"], i["tau"], i["cap"])
    return {"p": p, "sum": sum(p)}


def rogan_gladen(i: Case) -> Found:
    table = Confusion(
        both_bad=i["true_pos"],
        missed=i["human_pos"] - i["true_pos"],
        false_alarms=i["human_neg"] - i["true_neg"],
        both_good=i["true_neg"],
    )
    found = agreement.rogan_gladen(i["judge_flag_rate"], i["n_judge"], table)
    sens, spec = agreement.sensitivity(table), agreement.specificity(table)
    assert sens is not None
    assert spec is not None
    result: Found = {
        "sens": sens.value,
        "spec": spec.value,
        "youden": found.youden,
        "rg": found.estimate,
        "delta_se": found.standard_error,
        "lang_reiczigel95": [found.low, found.high],
        "sens_wilson95": sens[1:],
        "spec_wilson95": spec[1:],
    }
    return result if found.estimate is not None else {"youden": found.youden, "rg": None}


def kappa(i: Case) -> Found:
    found = agreement.agreement(i["table"])
    assert found is not None
    return {
        "kappa": found.kappa,
        "lo": found.kappa_low,
        "hi": found.kappa_high,
        "std": found.kappa_se,
        "agreement": found.agreement,
        "pos_agreement": found.by_label[0],
        "neg_agreement": found.by_label[1],
        "gwet_ac1": found.ac1,
    }


def human_gold(i: Case) -> Found:
    (a, b), (c, d) = i["human_table"]
    table = Confusion(both_bad=a, missed=b, false_alarms=c, both_good=d)
    found = agreement.ppi_human_gold(i["judge_flags"], i["n_judge"], table)
    assert found is not None
    mean = found.estimate
    return {
        "lam": found.lam,
        "est": mean,
        "var": found.variance,
        "wilson_nstar95": wilson(mean, mean * (1 - mean) / found.variance),
        "human_only_wilson95": wilson(table.bad / table.n, table.n),
    }


def cluster(i: Case) -> Found:
    iid = weighted.hajek(Sums.of(i["y"], i["p"])).variance
    ones = [1.0] * len(i["y"])
    talks = ClusterSums.of(i["y"], ones, i["p"], i["cluster"])
    sums = PpiSums.of(i["y"], ones, i["p"], requests=len(i["y"]), h=0.0)
    found = clusters.cluster_variance(sums, talks)
    assert found is not None
    return {
        "var_cluster_corrected": found,
        "var_cluster": found * (talks.n - 1) / talks.n,
        "n_clusters": talks.n,
        "deff": found / iid,
    }


def e_detector(i: Case) -> Found:
    detector = sequential.ShiryaevRoberts(baseline=i["loss0"], bet=i["lam"], threshold=1e6)
    path = []
    for loss in i["loss"]:
        detector = detector.observe(loss)
        path.append(detector.value)
    return {"e_sr": path}


def cusum(i: Case) -> Found:
    return {"cusum": sequential.cusum(i["loss"], i["loss0"], i["k"])}


def burn(i: Case) -> Found:
    return {
        "burn": [sequential.burn_rate(mean, i["slo"]) for mean in i["window_mean"]],
        "max_possible_burn": sequential.burn_rate(0.0, i["slo"]),
    }


def mcnemar(i: Case) -> Found:
    worse, better = i["b_old_right_new_wrong"], i["c_old_wrong_new_right"]
    found = paired.exact_mcnemar(worse, better)
    return {
        "p_exact": found.p_value,
        "p_mid": found.p_mid,
        "bonett_price95": paired.bonett_price(worse, better, i["n"]),
    }


def sign_flip(i: Case) -> Found:
    found = paired.paired_t(i["diffs"])
    assert found is not None
    return {
        "mean": found.mean,
        "p_signflip_exact": paired.sign_flip(i["diffs"]).p_value,
        "t_p": found.p_value,
        "t_ci": [found.low, found.high],
    }


def bca(i: Case) -> Found:
    return {"bca95": paired.bca_interval(i["diffs"])}


def floors(i: Case) -> Found:
    return {"p_below_floor": [planning.below_floor(x, n, f) for x, n, f in i["cases"]]}


def standard_errors(i: Case) -> Found:
    rows = [planning.precision(n, i["p"]) for n in i["n"]]
    return {
        "se": [row.standard_error for row in rows],
        "half_width95": [row.half_width for row in rows],
        "n_for_5pts": planning.questions_for(0.05, i["p"]),
    }


def connor(i: Case) -> Found:
    return {
        "n": [planning.questions_for_paired(c, d, i["alpha"], i["power"]) for c, d in i["cases"]]
    }


def merge(i: Case) -> Found:
    """Sums of scores and predictions, worked out from the product's sums of losses."""

    def part(y: list[float], f: list[float], p: list[float]) -> ppi.PpiSums:
        return ppi.PpiSums.of(y, f, p, requests=len(y), h=sum(1 - g for g in f))

    cut = i["split"]
    first = part(i["y"][:cut], i["f"][:cut], i["p"][:cut])
    second = part(i["y"][cut:], i["f"][cut:], i["p"][cut:])
    mean, variance = weighted.hajek((first + second).judged)
    return {
        "minute1": _in_scores(first),
        "minute2": _in_scores(second),
        "merged": _in_scores(first + second),
        "hajek": mean,
        "var_super": variance,
        "var_finite": weighted.finite_variance((first + second).judged),
    }


def _in_scores(sums: ppi.PpiSums) -> dict[str, float]:
    j = sums.judged
    return {
        "n": j.n,
        "w": j.w,
        "wy": j.w - j.wl,
        "wf": j.w - sums.wh,
        "wyy": j.w - 2 * j.wl + j.wll,
        "wyf": j.w - j.wl - sums.wh + sums.wlh,
        "wff": j.w - 2 * sums.wh + sums.whh,
        "w2": j.w2,
        "w2y": j.w2 - j.w2l,
        "w2f": j.w2 - sums.w2h,
        "w2yy": j.w2 - 2 * j.w2l + j.w2ll,
        "w2yf": j.w2 - j.w2l - sums.w2h + sums.w2lh,
        "w2ff": j.w2 - 2 * sums.w2h + sums.w2hh,
    }


def late(i: Case) -> Found:
    return {
        "p_independent": [inclusion.independent_draws(*pair) for pair in i["cases"]],
        "p_same_hash": [inclusion.raised_threshold(*pair) for pair in i["cases"]],
    }


def missing(i: Case) -> Found:
    sums = Sums.of(i["y"], i["p"])
    found = weighted.estimate(sums)
    return {
        "lower": found.bounds_low,
        "upper": found.bounds_high,
        "missing_weight_frac": sums.w_failed / (sums.w + sums.w_failed),
        "complete_case_hajek": found.mean,
    }


CHECKS: dict[str, Callable[[Case], Found]] = {
    "w1_mixed_prob": mixed_probabilities,
    "w2_all_ones_n1": all_ones,
    "w2_all_ones_n5": all_ones,
    "w2_all_ones_n20": all_ones,
    "w4_empty": empty,
    "w5_naive_bias": naive_bias,
    "w6_ht_enumeration": all_samples,
    "p1_ppi_disjoint": ppi_disjoint,
    "p2_ppi_hajek_weighted": ppi_weighted,
    "p3_active_probs": active,
    "j1_rogan_gladen": rogan_gladen,
    "j3_impossible": rogan_gladen,
    "j4_ppi_human_gold": human_gold,
    "k1_kappa": kappa,
    "k3_kappa": kappa,
    "c1_cluster": cluster,
    "s1_esr": e_detector,
    "s2_cusum": cusum,
    "s4_burn": burn,
    "g1_mcnemar": mcnemar,
    "g3_mcnemar": mcnemar,
    "g4_mcnemar": mcnemar,
    "g6_signflip": sign_flip,
    "g6b_bca_stochastic": bca,
    "g8_floor": floors,
    "g9_se_table": standard_errors,
    "g10_paired_n": connor,
    "t1_merge": merge,
    "l1_combined": late,
    "m1_missing": missing,
}
SAMPLING_HASH = {"h1_hash", "h2_uniformity"}


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {case["id"]: case for case in json.loads(REFERENCE.read_text())["cases"]}


@pytest.mark.shared
@pytest.mark.parametrize("name", CHECKS)
def test_a_reference_case_comes_out_to_its_tolerance(name: str, cases: dict[str, Case]) -> None:
    case = cases[name]
    found = CHECKS[name](case["inputs"])
    assert found
    for key, value in found.items():
        assert_close(value, case["expected"][key], case["abs_tol"], f"{name}.{key}")


@pytest.mark.shared
def test_no_reference_case_is_left_out(cases: dict[str, Case]) -> None:
    assert set(cases) == set(CHECKS) | SAMPLING_HASH


def assert_close(found: Any, expected: Any, tolerance: float, where: str) -> None:
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert_close(found[key], value, tolerance, f"{where}.{key}")
    elif isinstance(expected, list):
        assert list(found) == pytest.approx(expected, abs=tolerance, rel=0), where
    elif isinstance(expected, (int, float)):
        assert found == pytest.approx(expected, abs=tolerance, rel=0), where
    else:
        assert found == expected, where
