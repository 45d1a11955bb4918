"""What `golden lint` finds: each planted fault by its line, and nothing in a sound set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import collector.demo
from collector.cli import app
from collector.demo.corpus import load_pages
from collector.errors import UsageError
from collector.golden.lint import lint
from collector.golden.pages import read_pages
from sinks import golden_file
from sinks.golden_file import GoldenRow, PlacedRow

DEMO = Path(collector.demo.__file__).parent / "golden.yaml"
SOUND: dict[str, Any] = {
    "question": "Is SSO included in the Pro plan?",
    "segment": "lookup",
    "reference_answer": "SSO costs 2 dollars per user on Pro.",
    "gold_sources": ["212"],
}


def checks(*changes: dict[str, Any], pages: dict[str, str | None] | None = None) -> list[str]:
    """Return what is found about the rows themselves, as `id check`."""
    rows = [GoldenRow(**{"id": f"q{n}", **SOUND, **change}) for n, change in enumerate(changes)]
    placed = [PlacedRow(n, row) for n, row in enumerate(rows, 1)]
    return [f"{f.row_id} {f.check}" for f in lint(placed, pages) if f.row_id is not None]


def test_the_demo_set_has_no_error_against_its_pages() -> None:
    pages = {page.page_id: page.text for page in load_pages()}
    found = lint(golden_file.load_placed(DEMO), dict(pages))
    assert [one for one in found if one.level == "error"] == []


def test_an_error_names_the_line_the_row_starts_on(tmp_path: Path) -> None:
    path = tmp_path / "golden.yaml"
    path.write_text("# ours\n- question: one?\n  answerable: false\n\n- question: two?\n")
    found = [(f.line, f.check) for f in lint(golden_file.load_placed(path)) if f.line]
    assert found == [
        (2, "no_segment"),
        (5, "no_segment"),
        (5, "no_gold_sources"),
        (5, "no_reference"),
    ]


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("is SSO included, in the Pro plan", ["q1 duplicate"]),
        ("Is SSO included in the Pro plans?", ["q1 near_duplicate"]),
        ("In the Pro plan is SSO included?", ["q1 near_duplicate"]),
        ("Is SSO not included in the Pro plan?", []),
        ("How long does the trial last?", []),
    ],
)
def test_questions_that_stand_there_twice_are_found(question: str, found: list[str]) -> None:
    assert checks({}, {"question": question}) == found


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, []),
        ({"segment": None}, ["q0 no_segment"]),
        ({"gold_sources": []}, ["q0 no_gold_sources"]),
        ({"reference_answer": None}, ["q0 no_reference"]),
        ({"answerable": False}, ["q0 sources_of_unanswerable"]),
        ({"answerable": False, "gold_sources": [], "reference_answer": None}, []),
        ({"extra": {"draft": True}}, ["q0 draft"]),
    ],
)
def test_labels_that_are_missing_or_at_odds_are_found(
    change: dict[str, Any], found: list[str]
) -> None:
    assert checks(change) == found


@pytest.mark.parametrize(
    ("quote", "contradicts"),
    [
        ("SSO costs 2 dollars per user on Pro", False),
        ("SSO costs 4 dollars per user on Pro.", True),
        ("Invoices are issued on the first day.", False),
    ],
)
def test_a_reference_at_odds_with_its_own_quote_is_found(quote: str, *, contradicts: bool) -> None:
    found = checks({"quotes": [quote]})
    assert found == (["q0 reference_contradicts_quote"] if contradicts else [])


@pytest.mark.parametrize(
    ("pages", "found"),
    [
        ({"212": None}, []),
        ({"212": "On Pro, SSO costs\n2 dollars."}, []),
        ({"212": "On Pro, SSO costs 3 dollars."}, ["q0 quote_is_gone"]),
        ({"213": "On Pro, SSO costs 2 dollars."}, ["q0 source_is_gone"]),
        ({}, ["q0 source_is_gone"]),
    ],
)
def test_sources_and_quotes_that_are_gone_are_found(
    pages: dict[str, str | None], found: list[str]
) -> None:
    assert checks({"quotes": ["SSO costs 2 dollars"]}, pages=pages) == found


def whole(rows: list[GoldenRow]) -> dict[str, str]:
    found = lint([PlacedRow(n, row) for n, row in enumerate(rows, 1)])
    return {f"{f.check}": f.message for f in found if f.row_id is None}


def distinct(n: int, **change: Any) -> list[GoldenRow]:
    return [
        GoldenRow(**{"id": f"{change}{i}", **SOUND, "question": f"{change} {i}?", **change})
        for i in range(n)
    ]


def test_a_balanced_set_with_enough_unanswerable_questions_is_left_in_peace() -> None:
    refusals = distinct(20, segment="none", answerable=False, gold_sources=[])
    assert whole(distinct(20) + distinct(20, segment="other") + refusals) == {}


def test_imbalance_is_told_with_what_it_costs() -> None:
    # n = 5: 1.96 * sqrt(.25 / 5) = .438.
    found = whole([*distinct(50), *distinct(5, segment="other", answerable=False, gold_sources=[])])
    assert set(found) == {"few_unanswerable", "small_segment", "large_segment"}
    assert found["few_unanswerable"].startswith("5 of 55 questions")
    assert "segment other has 5 questions, good for a share to within 44 points" in str(found)
    assert "segment lookup is 91% of the set" in found["large_segment"]


def test_synthetic_rows_are_counted_and_drafts_make_no_set() -> None:
    assert whole(distinct(3, synthetic=True))["synthetic"].startswith("3 of 3")
    assert set(whole(distinct(3, extra={"draft": True}))) == {"empty"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pages.txt", "212\n\n 7 \n"),
        ("pages.jsonl", '{"page_id": 212, "text": null}\n{"id": "7"}\n'),
        ("pages.json", '["212", {"document_id": "7"}]'),
    ],
)
def test_pages_are_listed_in_any_of_three_ways(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_pages(tmp_path / name) == {"212": None, "7": None}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("p.jsonl", '{"id": "7"}\n{"text": "a"}\n', "p.jsonl:2: a page must be its id"),
        ("p.jsonl", "7\n{\n", "p.jsonl:2: is not JSON"),
        ("p.json", '{"pages": []}', "p.json:1: a page must be its id"),
    ],
)
def test_a_list_of_pages_that_cannot_be_read_says_where(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=said):
        read_pages(tmp_path / name)


def test_the_command_prints_a_line_a_finding_and_ends_with_1_on_errors(tmp_path: Path) -> None:
    golden, pages = tmp_path / "golden.yaml", tmp_path / "pages.txt"
    golden_file.append(golden, distinct(1))
    pages.write_text("212\n")
    words = ["golden", "lint", str(golden), "--pages", str(pages)]
    sound = CliRunner().invoke(app, words)
    assert (sound.exit_code, sound.output.splitlines()[-1]) == (0, "0 errors, 2 warnings")
    pages.write_text("213\n")
    lost = CliRunner().invoke(app, words)
    assert lost.exit_code == 1
    assert lost.output.splitlines()[0] == (
        f"{golden}:1: {{}}0: error: no page has the id 212 [source_is_gone]"
    )
    found = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)
    assert found[0]["check"] == "source_is_gone"
