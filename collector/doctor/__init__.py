"""What traces lack for being monitored, how often, and the setting that brings it back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from collector import trace_files
from collector.doctor import cures
from collector.doctor.checks import CHECKS, Check
from collector.doctor.seen import Seen, seen_of, seen_of_row
from collector.extract import extract
from collector.model import NotARequest
from collector.plain import plain

__all__ = ["diagnose_files", "diagnose_rows", "lines"]

_MOSTLY = 0.5
_TOLD_TOGETHER = ("cures", "cost", "requests", "example")


def diagnose_files(files: Sequence[Path], logs: Sequence[Path] = ()) -> dict[str, Any]:
    """Return what the requests in trace files lack; see `diagnose_rows`.

    Raises:
        MalformedPayload: a file holds no telemetry.
        OSError: a file cannot be read.
    """
    seen: list[Seen] = []
    left_out: Counter[str] = Counter()
    for trace in trace_files.read(files, logs):
        request = extract(trace)
        if isinstance(request, NotARequest):
            left_out[request.reason] += 1
        else:
            seen.append(seen_of(request, trace))
    return _diagnose(seen, dict(sorted(left_out.items())))


def diagnose_rows(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what stored requests lack.

    Args:
        rows: of the query `doctor`.

    Returns:
        `ok` (nothing essential is missing), `requests`, `left_out` (traces that are no requests,
        by reason; none where only requests are stored) and `services`, each with its findings,
        the grave ones first.
    """
    return _diagnose([seen_of_row(row) for row in rows], {})


def _diagnose(seen: Sequence[Seen], left_out: dict[str, int]) -> dict[str, Any]:
    by_service: dict[str, list[Seen]] = {}
    for one in seen:
        by_service.setdefault(one.service or "unknown", []).append(one)
    services = [_service(name, by_service[name]) for name in sorted(by_service)]
    findings = [finding for service in services for finding in service["findings"]]
    return {
        "ok": bool(seen) and not any(finding["essential"] for finding in findings),
        "requests": sum(one.count for one in seen),
        "left_out": left_out,
        "services": services,
    }


def _service(name: str, seen: Sequence[Seen]) -> dict[str, Any]:
    requests = sum(one.count for one in seen)
    conventions = Counter[str]()
    for one in seen:
        conventions.update(dict.fromkeys(one.conventions, one.count))
    findings = [
        finding for check in CHECKS if (finding := _finding(check, seen, requests)) is not None
    ]
    findings.sort(key=lambda finding: not finding["essential"])
    return {
        "service": name,
        "requests": requests,
        "conventions": dict(conventions.most_common()),
        "findings": findings,
    }


def _finding(check: Check, seen: Sequence[Seen], requests: int) -> dict[str, Any] | None:
    lacking = [one for one in seen if check.lacks(one)]
    if not lacking:
        return None
    concerned = sum(one.count for one in lacking)
    share = concerned / requests
    return {
        "check": check.name,
        "says": check.says,
        "cost": check.cost,
        "essential": check.grave_from is not None and share >= check.grave_from,
        "requests": concerned,
        "share": share,
        "example": max(lacking, key=lambda one: one.count).example,
        "cures": _cures(check, lacking, share),
    }


def _cures(check: Check, lacking: Sequence[Seen], share: float) -> list[str]:
    """Return the cures for those concerned, without repetition, that of most requests first."""
    counted: Counter[str] = Counter()
    for one in lacking:
        table = check.cures
        if check.name == "answer" and one.question and share < _MOSTLY:
            table = cures.UNANSWERED
        elif check.name == "tokens" and one.streamed:
            table = cures.STREAMED_TOKENS
        elif check.cures is cures.CONTENT and _content_is_in_logs(one):
            table = cures.LOGS
        counted[cures.cure_for(table, one.conventions)] += one.count
    return [cure for cure, _ in counted.most_common()]


def _content_is_in_logs(seen: Seen) -> bool:
    return "no_logs" in seen.hints and seen.conventions == ("otel-genai",)


def lines(report: Mapping[str, Any]) -> list[str]:
    """Return a report as short plain lines."""
    found: list[str] = []
    for service in report["services"]:
        total = _count(service["requests"])
        name = plain(service["service"])
        found.append(f"{name}: {total}, {', '.join(service['conventions'])}")
        if not service["findings"]:
            found.append("  nothing is missing")
        for alike in _alike(service["findings"]):
            first = alike[0]
            mark = "!" if first["essential"] else "-"
            says = ", ".join(finding["says"] for finding in alike)
            found.append(
                f"  {mark} {says}: {first['requests']} of {total} ({first['share']:.0%}), "
                f"e.g. {plain(first['example'])}"
            )
            found.append(f"      {first['cost']}")
            found += [f"      cure: {cure}" for cure in first["cures"]]
    if report["left_out"]:
        reasons = ", ".join(f"{count} {reason}" for reason, count in report["left_out"].items())
        found.append(f"no users' requests: {reasons}")
    if not report["services"]:
        found.append("no request found")
        found.append(
            "  cure: send one trace for each request, with spans of the model's call; of a running"
            " agent, wait until it has been silent for assembler.quiet_seconds"
        )
    return found


def _alike(findings: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the findings, those side by side that concern and cost the same together."""
    groups: list[list[dict[str, Any]]] = []
    for finding in findings:
        if groups and all(finding[key] == groups[-1][0][key] for key in _TOLD_TOGETHER):
            groups[-1].append(finding)
        else:
            groups.append([finding])
    return groups


def _count(requests: int) -> str:
    return f"{requests} request" + ("" if requests == 1 else "s")
