from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from collector.errors import UsageError
from sinks.golden_file import GoldenRow, append, load, normalised, same_question
from tests.fakes.golden import problems, write

YAML_FILE = """\
# The golden set of the help desk.

- id: sso-on-pro          # two pages
  question: Is SSO included in the Pro plan?
  segment: multi_page
  reference_answer: >-
    Yes, at 2 dollars
    per user and month.
  gold_sources: [page-212, page-1140]
  quotes:
    - "SSO is available on Pro"
  answerable: true
  owner: anna

# Nobody sells this.
- id: pets
  question: "Does Acme offer pet insurance?"
  segment: unanswerable
  answerable: false
# the end
"""

NEW = GoldenRow(
    id="new-1",
    question="How do I export\nall invoices?",
    segment="lookup",
    reference_answer="Under Billing: Export.",
    gold_sources=["page-7"],
    trace_id="0af7",
)


def question(text: str, id_: str = "other") -> GoldenRow:
    return GoldenRow(id=id_, question=text)


def test_a_yaml_file_is_read_with_all_its_fields(tmp_path: Path) -> None:
    sso, pets = load(write(tmp_path, YAML_FILE))
    assert sso == GoldenRow(
        id="sso-on-pro",
        question="Is SSO included in the Pro plan?",
        segment="multi_page",
        reference_answer="Yes, at 2 dollars per user and month.",
        gold_sources=["page-212", "page-1140"],
        quotes=["SSO is available on Pro"],
        answerable=True,
        extra={"owner": "anna"},
    )
    assert (pets.answerable, pets.gold_sources, pets.reference_answer) == (False, [], None)


def test_the_older_shape_is_read(tmp_path: Path) -> None:
    text = """
- query: What does error 4012 mean?
  relevant_chunk_ids: [212-3, 1140]
  reference_answer: The quota is used up.
  type: identifier
- query: Who won the cup?
  relevant_chunk_ids: []
  type: unanswerable
"""
    first, second = load(write(tmp_path, text))
    assert first.question == "What does error 4012 mean?"
    assert first.gold_sources == ["212-3", "1140"]
    assert (first.segment, first.answerable) == ("identifier", True)
    assert (second.segment, second.answerable) == ("unanswerable", False)
    assert first.id != second.id
    assert load(tmp_path / "golden.yaml")[0].id == first.id
    assert first.extra == {}


@pytest.mark.parametrize("name", ["golden.json", "golden.jsonl"])
def test_json_and_json_lines_are_read(tmp_path: Path, name: str) -> None:
    rows = [{"id": 7, "question": "Ça marche? 🦉", "gold_sources": [212]}, {"question": "Why?"}]
    lines = "\n".join(json.dumps(row) for row in rows)
    text = lines if name.endswith("l") else json.dumps(rows, indent="\t")
    first, second = load(write(tmp_path, text, name))
    assert (first.id, first.question, first.gold_sources) == ("7", "Ça marche? 🦉", ["212"])
    assert second.question == "Why?"


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "[]", "---\n"])
def test_an_empty_file_holds_no_rows(tmp_path: Path, text: str) -> None:
    assert load(write(tmp_path, text)) == []


def test_page_ids_with_leading_zeros_stay_as_they_are_written(tmp_path: Path) -> None:
    (row,) = load(write(tmp_path, "- {id: 0012, question: q, gold_sources: [007, 1140]}"))
    assert (row.id, row.gold_sources) == ("0012", ["007", "1140"])


def test_a_file_that_is_not_there_or_not_utf8_says_so(tmp_path: Path) -> None:
    assert "cannot be read" in problems(tmp_path / "absent.yaml")[0]
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"- question: caf\xe9?\n")
    assert "save it as UTF-8" in problems(path)[0]


def test_added_rows_leave_comments_order_and_layout_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path, YAML_FILE)
    result = append(path, [NEW])
    assert result.added == [NEW]
    assert path.read_text().startswith(YAML_FILE)
    assert [row.id for row in load(path)] == ["sso-on-pro", "pets", "new-1"]
    assert load(path)[-1] == NEW


@pytest.mark.parametrize(
    "text",
    [
        "- question: one?",
        "  - question: one?\n    segment: a\n",
        "---\n- question: one?\n...\n",
        "[]\n",
        "[{question: one?}]  # in one line\n",
        "# only a comment",
    ],
    ids=["no newline", "indented", "end marker", "empty list", "in brackets", "comment"],
)
def test_rows_are_added_to_any_layout_of_a_list(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    before = load(path)
    append(path, [NEW])
    assert load(path) == [*before, NEW]
    if "#" in text:
        assert text[text.index("#") :].strip() in path.read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.yaml", "version: 1  # ours\nquestions:\n- question: one?\n# more\nowner: anna\n"),
        ("g.yaml", "questions:\n    - question: one?\n      segment: a"),
        ("g.yaml", "questions: []  # none yet\n"),
        ("g.yaml", "questions: [{question: one?}]\nowner: anna\n"),
        ("g.json", '{"version": [1, {"a": 2}], "questions": [{"question": "one?"}], "o": "a"}'),
        ("g.json", '{"questions": []}'),
    ],
)
def test_a_list_under_questions_is_read_and_added_to_beside_other_keys(
    tmp_path: Path, name: str, text: str
) -> None:
    path = write(tmp_path, text, name)
    before = load(path)
    assert [row.question for row in before] == ["one?"] * text.count("one?")
    append(path, [NEW])
    assert load(path) == [*before, NEW]
    read = YAML(typ="safe").load
    kept, was = read(path.read_text()), read(text)
    assert {**kept, "questions": []} == {**was, "questions": []}
    if "#" in text:
        assert text.partition("#")[2].splitlines()[0] in path.read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.yaml", "\ufeff- question: one?\r\n  segment: a\r\n"),
        ("g.jsonl", '\ufeff{"question": "one?"}\r\n{"question": "b?"}'),
    ],
)
def test_line_ends_and_mark_of_windows_are_kept(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode())
    append(path, [NEW])
    assert path.read_bytes().startswith(text.encode())
    assert path.read_bytes().count(b"\n") == path.read_bytes().count(b"\r\n")
    assert load(path)[-1] == NEW


@pytest.mark.parametrize("name", ["new.yaml", "new.json", "new.jsonl"])
def test_a_file_is_made_and_grows(tmp_path: Path, name: str) -> None:
    path = tmp_path / "sub" / name
    second = GoldenRow(id="null", question="yes: #no?", reference_answer="a\n\n  b\n", segment="12")
    append(path, [NEW])
    append(path, [second])
    assert load(path) == [NEW, second]


def test_a_question_that_is_there_is_not_added_again(tmp_path: Path) -> None:
    path = write(tmp_path, YAML_FILE)
    rows = [
        question("is sso  included, in the PRO plan", "x"),
        question("In the Pro plan, is SSO included?", "y"),
        question("Something else entirely?", "pets"),
        question("How are refunds paid to customers abroad?", "z"),
        question("How are the refunds paid to customers abroad?", "zz"),
    ]
    result = append(path, rows)
    assert [row.id for row in result.added] == ["z"]
    assert [(duplicate.row.id, duplicate.same_as) for duplicate in result.duplicates] == [
        ("x", "sso-on-pro"),
        ("y", "sso-on-pro"),
        ("pets", "pets"),
        ("zz", "z"),
    ]


def test_adding_nothing_new_does_not_touch_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, YAML_FILE)
    before = path.stat().st_mtime_ns
    append(path, [question("Does Acme offer pet insurance")])
    assert path.stat().st_mtime_ns == before


def test_a_file_with_a_problem_is_not_added_to(tmp_path: Path) -> None:
    path = write(tmp_path, "- id: a\n")
    with pytest.raises(UsageError, match="question: is missing"):
        append(path, [NEW])
    assert path.read_text() == "- id: a\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_to_the_file_stays_a_link_and_its_mode_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path, YAML_FILE)
    path.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(path)
    append(link, [NEW])
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert len(load(path)) == 3


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("What does error 4012 mean?", "What does error 4013 mean?", False),
        ("Is SSO included in the Pro plan?", "Is SSO not included in the Pro plan?", False),
        ("Why can I export invoices here?", "Why can't I export invoices here?", False),
        ("How do I cancel my subscription plan?", "How do I cancel my subscription plans?", True),
        ("How do I cancel?", "Where do I see my invoices?", False),
    ],
)
def test_questions_that_differ_in_a_number_or_a_negation_are_not_the_same(
    one: str, other: str, *, same: bool
) -> None:
    assert same_question(normalised(one), normalised(other)) is same


def test_two_spaces_in_a_long_answer_stay_two_spaces(tmp_path: Path) -> None:
    path = tmp_path / "golden.yaml"
    answer = "Options are traded on  exchanges of their own,  " * 10 + "so it is."
    append(path, [GoldenRow(id="a", question="Where?", reference_answer=answer)])
    assert load(path)[0].reference_answer == answer


def test_text_that_cannot_be_encoded_is_made_storable(tmp_path: Path) -> None:
    path = tmp_path / "golden.yaml"
    append(path, [question("half \ud83d an emoji?")])
    assert load(path)[0].question == "half \ufffd an emoji?"


def test_a_read_only_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "golden.yaml"
    path.write_text("- id: q1\n  question: What is it?\n")
    path.chmod(0o444)
    with pytest.raises(UsageError, match=r"golden\.yaml: cannot be written: it is read-only"):
        append(path, [GoldenRow(id="q2", question="How much is it?")])
    assert path.read_text() == "- id: q1\n  question: What is it?\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


DRAFT = "id: new-1\n  question: A draft?\n  draft: true"
PLAIN_DRAFT = '{"id": "new-1", "question": "A draft?", "draft": true}'
LAYOUTS_WITH_A_DRAFT = {
    "between.yaml": f"# a\n- question: one?\n# b\n- {DRAFT}\n# c\n- question: two?\n",
    "alone.yaml": f"- {DRAFT}  # of the draft\n# c\n",
    "nested.yaml": f"- {DRAFT}\n  provenance:\n    note: |\n      x\n# c\n- question: two?\n",
    "key.yaml": "questions:\n  - question: one?\n  - "
    + DRAFT.replace("\n", "\n  ")
    + "\nowner: me\n",
    "brackets.yaml": f"[{{question: one?}}, {PLAIN_DRAFT}]  # c\n",
    "array.json": f'[{PLAIN_DRAFT}, {{"question": "b?"}}]',
    "lines.jsonl": f'{PLAIN_DRAFT}\n\n{{"question": "b?"}}\n',
    "signs.jsonl": f'{{"question": "line\u2028or \x85 page?"}}\n{PLAIN_DRAFT}\n',
}


@pytest.mark.parametrize("name", LAYOUTS_WITH_A_DRAFT)
def test_a_draft_gives_way_to_the_row_that_people_made_of_it(tmp_path: Path, name: str) -> None:
    before = LAYOUTS_WITH_A_DRAFT[name]
    path = write(tmp_path, before, name)
    others = [row for row in load(path) if row.id != NEW.id]
    assert append(path, [question("A draft?", NEW.id)]).added == [question("A draft?", NEW.id)]
    assert load(path) == [*others, question("A draft?", NEW.id)]
    for comment in ("# a", "# b", "# c", "owner: me"):
        assert (comment in path.read_text()) == (comment in before)
    assert "draft: true" not in path.read_text()


def test_a_draft_is_no_news_to_a_draft_nor_to_a_finished_row(tmp_path: Path) -> None:
    draft = GoldenRow(id="a", question="Why?", extra={"draft": True})
    path = tmp_path / "g.yaml"
    append(path, [draft])
    assert append(path, [draft]).added == []
    append(path, [question("Why?", "a")])
    assert append(path, [draft]).added == []
    assert load(path) == [question("Why?", "a")]
