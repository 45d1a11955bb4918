"""Runs and decisions as files for others: Markdown, HTML with plots, and JUnit XML for a CI.

Questions, segments and causes come from others and are escaped: they are shown, never obeyed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from collector.evaluation.catalogue import catalogue
from collector.evaluation.gate import Decision
from collector.evaluation.printed import interval, value
from collector.model_evaluation import EvalRow
from collector.plain import plain
from dashboards.review.render import markdown
from scorers.diagnosis_rows import passed

WORST = 20
"""Questions that a report names at most."""


def render_run(report: Mapping[str, Any], rows: Iterable[EvalRow], kind: str) -> str:
    """Return the report on a run as text.

    Args:
        report: see `collector.evaluation.report.summary`.
        rows: of the run.
        kind: `md`, `html` or `junit`.
    """
    if kind == "junit":
        by_name = sorted(rows, key=lambda row: (row.segment, row.question_id))
        return _junit(str(report["run"]), map(_case, by_name))
    template = _environment().get_template(f"report.{kind}.j2")
    return template.render(report=report, worst=worst(rows))


def render_decision(decision: Decision, kind: str) -> str:
    """Return what the gate decided as text; Markdown is made for a job's summary.

    Args:
        decision: of the gate.
        kind: `md` or `junit`.
    """
    if kind == "md":
        return _environment().get_template("gate.md.j2").render(found=decision)
    name = f"gate {decision.compared.old} to {decision.compared.new}"
    cases = [_failing("gate", reason.partition(" ")[0], reason) for reason in decision.blocked]
    return _junit(name, cases or [_testcase("gate", "passed")], decision.warnings)


def worst(rows: Iterable[EvalRow]) -> list[EvalRow]:
    """Return the real questions that went worst, worst first: unanswered ones, then by scores."""
    real = ((_shortfall(row), row) for row in rows if not row.synthetic)
    bad = sorted(
        ((short, row) for short, row in real if short > 0.0),
        key=lambda one: (-one[0], one[1].question_id),
    )
    return [row for _, row in bad[:WORST]]


_TELLING = ("context_recall", "faithfulness", "correctness", "refusal", "wrong_refusal")


def _shortfall(row: EvalRow) -> float:
    """Return how far an answer is from right, from 0 to 1; over 1 where there is none."""
    if row.error is not None:
        return 2.0
    less_is_better = {one.name for one in catalogue(1) if not one.more_is_better}
    scores = [
        score if name in less_is_better else 1.0 - score
        for name in _TELLING
        if (score := row.measures.get(name)) is not None
    ]
    return sum(scores) / len(scores) if scores else 0.0


# --- JUnit -------------------------------------------------------------------------------


def _junit(name: str, cases: Iterable[Element], notes: Sequence[str] = ()) -> str:
    suite = Element("testsuite", name=_xml(name))
    suite.extend(cases)
    for kind in ("failure", "error", "skipped"):
        suite.set(f"{kind}s" if kind != "skipped" else kind, str(len(suite.findall(f"*/{kind}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    if notes:
        SubElement(suite, "system-out").text = "\n".join(map(_xml, notes))
    root = Element("testsuites")
    root.append(suite)
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(row: EvalRow) -> Element:
    """Return a question as a test: wrong is a failure, unanswered an error, unknown skipped."""
    if row.error is not None:
        case = _testcase(row.segment, row.question_id)
        SubElement(case, "error", message=_xml(row.error))
        return case
    good = passed(row.diagnosis)
    if good is False:
        return _failing(
            row.segment, row.question_id, f"{row.question} {row.diagnosis}: {row.advice}"
        )
    case = _testcase(row.segment, row.question_id)
    if good is None:
        SubElement(case, "skipped", message=_xml(row.diagnosis or "not diagnosed"))
    return case


def _failing(group: str, name: str, message: str) -> Element:
    case = _testcase(group, name)
    SubElement(case, "failure", message=_xml(message))
    return case


def _testcase(group: str, name: str) -> Element:
    return Element("testcase", classname=_xml(group), name=_xml(name))


def _xml(text: str) -> str:
    """Return text without what XML 1.0 does not allow, escaped or not."""
    return plain(text).replace("\ufffe", "").replace("\uffff", "")


# --- Markdown and HTML -------------------------------------------------------------------


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("collector.evaluation"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"md": _cell, "plain": plain, "value": value, "counts": _counts}
    made.globals |= {"interval": interval}
    return made


def _cell(text: str | None) -> str:
    """Return text for Markdown, in a table or out of one."""
    return markdown(text).replace("|", "\\|")


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in found.items())
