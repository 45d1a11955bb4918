"""Golden files that are odd or wrong: what is read, and how problems are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinks.golden_file import GoldenRow, append, load
from tests.fakes.golden import problems, write


def test_every_problem_is_told_by_line_and_field(tmp_path: Path) -> None:
    text = """\
- id: a
  question: one?
- id: b
  segment: lookup
- id: c
  question: three?
  answerable: "no"
  gold_sources: page-1
- id: a
  question: four?
- id: e
  query: ""
"""
    assert problems(write(tmp_path, text)) == [
        ":3: question: is missing; give the question that is asked",
        ":7: answerable: must be true or false",
        ":8: gold_sources: must be a list of texts, such as [page-1, page-2]",
        ":9: id: is taken by the row at line 1; ids must be unique",
        ":12: query: must be a text that is not empty",
    ]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("g.yaml", "- id: a\n  question: 'open\n", ":3: not YAML"),
        ("g.yaml", "rows:\n  - id: a\n", ":1: must be a list of rows, or hold one under questions"),
        ("g.yaml", "questions: {id: a}\n", ":1: must be a list of rows"),
        ("g.yaml", "questions:\n  - id: a\n", ":2: question: is missing"),
        ("g.json", '{"v": [1],\n"questions": [\n{"id": "a"}]}', ":3: question: is missing"),
        ("g.yaml", "- a\n- b\n", ":1: a row must be a mapping"),
        ("g.json", '[\n{"id": "a"},\n{"id": }\n]', ":3: not JSON"),
        ("g.json", "[\n1]", ":2: a row must be an object"),
        ("g.jsonl", '{"question": "q"}\n{"question": ""}', ":2: question: must be a text"),
        ("g.yaml", "- id: \x01\n", ": not YAML: a character that YAML does not allow"),
        (
            "g.yaml",
            "- id: a\n  question: q\n- id: b\n  id: c\n",
            ":3: id: is there twice; keep one",
        ),
        ("g.json", '[\n{"id": "a", "id": "b"}]', ":2: id: is there twice; keep one"),
        ("g.jsonl", '{"question": "q"}\n{"a": {"b": 1, "b": 2}}\n', ":2: b: is there twice"),
        ("g.jsonl", '{"question": "q"}\n{"question":\n{"question": "r"}\n', ":2: not JSON"),
        ("g.json", '{"question": "q"}\n', ":1: must be a list of rows"),
        ("g.yaml", "- &a\n  question: q\n  x: *a\n", ": is nested too deeply, or holds itself"),
        ("g.json", "[" * 100_000, ": is nested too deeply"),
        ("g.jsonl", '{"question": ' + "[" * 100_000, ": is nested too deeply"),
        (
            "g.yaml",
            "- question: q\n  reference_answer: 42\n",
            ":2: reference_answer: must be a text: p",
        ),
    ],
)
def test_a_file_that_cannot_be_read_says_where(
    tmp_path: Path, name: str, text: str, problem: str
) -> None:
    assert problems(write(tmp_path, text, name))[0].startswith(problem)


def test_rows_that_are_none_are_told_with_the_problems_of_the_others(tmp_path: Path) -> None:
    text = "- id: a\n  segment: s\n- just text\n- {id: b, answerable: 3, question: q}\n"
    assert [one.split(":")[1] for one in problems(write(tmp_path, text))] == ["1", "3", "4"]


def test_merge_keys_of_yaml_bring_what_the_row_does_not_say_itself(tmp_path: Path) -> None:
    text = """\
defaults: &one {segment: refusals, answerable: false}
others: &two {segment: lookup, synthetic: true}
questions:
- {<<: *one, question: one?}
- {<<: [*one, *two], question: two?, segment: own}
"""
    first, second = load(write(tmp_path, text))
    assert (first.segment, first.answerable, first.synthetic) == ("refusals", False, False)
    assert (second.segment, second.answerable, second.synthetic) == ("own", False, True)


def test_half_a_character_in_json_is_made_storable(tmp_path: Path) -> None:
    path = write(tmp_path, '[{"question": "half \\ud83d an emoji?"}]', "g.json")
    assert load(path)[0].question == "half \ufffd an emoji?"
    append(path, [GoldenRow(id="new", question="When?")])
    assert [row.question for row in load(path)] == ["half \ufffd an emoji?", "When?"]
