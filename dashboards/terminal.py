"""Reports on a terminal. What comes from others is shown as text: no markup, no controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from collector.plain import plain
from scorers.calibration import KAPPA_LABELS

Row = Mapping[str, Any]

WHERE = ("ineligible", "not sampled", "judged", "waiting", "failed")
"""Where a request can be."""


def print_estimates(report: Row, console: Console) -> None:
    """Print the estimate per segment, and where every request is; over all in the last lines."""
    rows = [*report["segments"], {"segment": "all", **report["total"]}]
    name = "faithful" if report["scorer"] == "faithfulness" else report["scorer"].replace("_", " ")
    quality = (name, "95 % interval", "n_eff", "judged of eligible")
    _print_table(rows, quality, _quality, console)
    console.print()
    _print_table(rows, ("requests", *WHERE), _whereabouts, console)
    console.print(f"requests = {' + '.join(WHERE)}", style="dim")
    for line in (*why(report["total"]), *notes(report)):
        console.print(_shown(line), style="dim")
    judge = report["judge"]
    told = f"judge {judge['fingerprint']}: {judge['trust']} ({judge['reason']})"
    console.print(_shown(told), style="dim")
    if not report["accounting_ok"]:
        console.print("the accounting does not add up: please report this", style="bold red")


def _print_table(
    rows: Sequence[Row],
    names: Sequence[str],
    cells: Callable[[Row], list[str]],
    console: Console,
) -> None:
    # Everything fits into 80 columns; a longer name of a segment is cut, never a number.
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("segment", no_wrap=True, max_width=24)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows[:-1]:
        table.add_row(_shown(row["segment"]), *cells(row))
    table.add_section()
    table.add_row(rows[-1]["segment"], *cells(rows[-1]), style="bold")
    console.print(table)


def _quality(row: Row) -> list[str]:
    return [point(row), interval(row), f"{row['n_eff']:.0f}", f"{row['judged']}/{row['eligible']}"]


def _whereabouts(row: Row) -> list[str]:
    return [str(row["requests"]), *map(str, whereabouts(row))]


def whereabouts(row: Row) -> list[int]:
    """Return how many requests are in each place of `WHERE`; together these are all."""
    ineligible, failed = (sum(row[place].values()) for place in ("ineligible", "failed"))
    return [ineligible, row["not_sampled"], row["judged"], row["waiting"], failed]


def why(row: Row) -> list[str]:
    """Say why requests are ineligible or failed, one line each where there are any."""
    return [
        f"{place}: " + ", ".join(f"{reason.replace('_', ' ')} {n}" for reason, n in found)
        for place in ("ineligible", "failed")
        if (found := sorted(row[place].items(), key=lambda pair: -pair[1]))
    ]


def notes(report: Row) -> list[str]:
    """Say what else there is to know of the estimates, one line each."""
    rows = [*report["segments"], {"segment": "all", **report["total"]}]
    lines = [
        f"{row['segment']}: too few in this window; {found['window']}: "
        f"{point(found)}, {interval(found)}"
        for row in rows
        if (found := row["wider"]) is not None
    ]
    lines += [
        f"{row['segment']}: with the answers that could not be judged, between "
        f"{row['bounds'][0]:.3f} and {row['bounds'][1]:.3f}"
        for row in rows
        if row["bounds"][0] is not None
    ]
    lines += [
        f"{change['at'][:16]}: another judge, {change['fingerprint']} after {change['previous']}"
        for change in report["judge_changes"]
    ]
    covariate = report["covariate"]
    state = (
        f"used, learned from {covariate['n']} judged requests"
        if covariate["state"] == "on"
        else f"not used: {covariate['reason']}"
    )
    return [*lines, f"predictions by the local score: {state}"]


def interval(row: Row) -> str:
    """Return the interval as shown, "" where there is none."""
    return "" if row["low"] is None else f"{row['low']:.3f}–{row['high']:.3f}"


def point(row: Row) -> str:
    """Return the estimate as shown: none below n_eff 8, marked below 30."""
    if row["estimate"] is None:
        return {"no_data": "no data", "hidden": "too few"}.get(row["display"], "none")
    mark = " (few)" if row["display"] == "low_n" else ""
    return f"{row['estimate']:.3f}{mark}"


def print_signals(report: Row, console: Console) -> None:
    """Print signals by segment and kind, and how few of the users they speak for."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("segment", no_wrap=True)
    table.add_column("signal", no_wrap=True)
    for name in ("", "count", "per 100 requests", "good", "bad"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in [*report["segments"], {"segment": "all", **report["total"]}]:
        for found in row["kinds"]:
            rate = found["per_request"]
            table.add_row(
                _shown(row["segment"]),
                found["kind"].replace("_", " "),
                "inferred" if found["inferred"] else "sent",
                str(found["signals"]),
                "" if rate is None else f"{100 * rate:.1f}",
                str(found["positive"]),
                str(found["negative"]),
            )
    console.print(table)
    console.print(f"\n{engagement(report['total'])}")
    if report["unmatched"]:
        console.print(f"{report['unmatched']} signals name a request that is not there.")


def engagement(total: Row) -> str:
    """Say how far the signals that were sent can speak for all users."""
    if total["engaged_share"] is None:
        return "There were no requests."
    return (
        f"Signals were sent in {total['engaged']} of {total['conversations']} conversations "
        f"({100 * total['engaged_share']:.1f} %): they say what these users think, "
        "not what all do.\nWhat was inferred is a guess; the review shows how sure each one is."
    )


def print_conversations(conversations: list[Any], console: Console) -> None:
    """Print the worst conversations, one line each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("badness", "question", "why it is here"):
        table.add_column(name, overflow="fold")
    for conversation in conversations:
        table.add_row(
            f"{conversation['badness']:.1f}",
            _shown(conversation["question"] or "(not stored)"),
            _shown("; ".join(conversation["reasons"])),
        )
    console.print(table)


def print_candidates(candidates: list[Any], console: Console) -> None:
    """Print golden candidates, one line each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("id", no_wrap=True)
    for name in ("state", "question", "times", "segment", "sources", "why"):
        table.add_column(name, overflow="fold")
    for row in candidates:
        table.add_row(
            row["id"],
            _shown(_state(row)),
            _shown(row["question"]),
            str(row["times"]) if row["times"] else "",
            _shown(row["segment"] or ""),
            _shown(", ".join(row["gold_sources"])),
            _shown("; ".join(row["provenance"].get("reasons", []))),
        )
    console.print(table)


def _state(candidate: Row) -> str:
    by, standing, same = candidate["by"], candidate["standing"], candidate.get("same_as")
    told = [f"{candidate['state']} by {by}" if by else candidate["state"]]
    if standing:
        told.append(standing["said"])
    if same:
        told.append(f"the set has it as {same}")
    return "; ".join(told)


def print_calibration(report: Row, console: Console) -> None:
    """Print the judge's verdicts beside those of people, and whether it is trusted."""
    console.print(_shown(f"judge {report['fingerprint']}: {report['trust']} ({report['reason']})"))
    if report["second"] is not None:
        _print_second(report["second"], console)
    if not report["labels"]:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("people say")
    for verdict in report["verdicts"]:
        table.add_column(f"judge says {verdict}", justify="right")
    for verdict, counts in zip(report["verdicts"], report["table"], strict=True):
        table.add_row(verdict, *(str(count) for count in counts))
    console.print(table)
    for words, key in (
        ("unsupported claims it flags", "sensitivity"),
        ("supported claims it lets pass", "specificity"),
    ):
        if (rate := report[key]) is not None:
            share, low, high = rate
            console.print(f"{words}: {share:.3f} ({low:.3f}–{high:.3f})")
    if (both := report["agreement"]) is not None:
        for verdict, share in zip(report["verdicts"], both["by_label"], strict=True):
            if share is not None:
                console.print(f"agreement on {verdict}: {share:.3f}")
        _print_kappa(both, console)


def _print_second(second: Row, console: Console) -> None:
    told = f"second judge {second['fingerprint']}: {second['answers']} answers judged by both"
    console.print(_shown(told))
    if (both := second["agreement"]) is None:
        return
    wholly, not_wholly = both["by_label"]
    for words, share in (("supported", wholly), ("not supported", not_wholly)):
        if share is not None:
            console.print(f"agreement on answers that are wholly {words}: {share:.3f}")
    _print_kappa(both, console)
    console.print(f"its scores less those of the judge, in the mean: {second['difference']:+.3f}")


def _print_kappa(both: Row, console: Console) -> None:
    if both["kappa"] is not None and both["n"] >= KAPPA_LABELS:
        console.print(
            f"kappa {both['kappa']:.3f} ({both['kappa_low']:.3f}–{both['kappa_high']:.3f})"
        )


def _shown(text: str) -> Text:
    return Text(plain(text))
