"""Each planted failure has the property that its kind claims, and good answers are good."""

import re

import pytest

from collector.config import SegmentsConfig
from collector.demo.assistant import Answered, Assistant, cite
from collector.demo.corpus import load_pages, load_yaml
from collector.demo.retrieval import Hit
from collector.demo.script import KINDS, Channel, PlantedAnswer, Script, load_script
from collector.model import RagRequest, Trace
from collector.segments import Segmenter

CHANNELS: tuple[Channel, ...] = ("web", "app")


@pytest.fixture(scope="module")
def script() -> Script:
    return load_script()


@pytest.fixture(scope="module")
def live(script: Script) -> Assistant:
    return Assistant(script=script)


@pytest.fixture(scope="module")
def fixed(script: Script) -> Assistant:
    return Assistant(fixed=True, script=script)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+(?:[.,:-]\w+)*", text.casefold()))


def context_of(answered: Answered) -> str:
    return "\n".join(f"{hit.page.title}\n{hit.page.text}" for hit in answered.context)


def page_ids(hits: list[Hit]) -> list[str]:
    return [hit.page.page_id for hit in hits]


def citations(answer: str) -> list[int]:
    return [int(number) for number in re.findall(r"\[(\d+)\]", answer)]


def unsupported(answered: Answered) -> list[str]:
    """The sentences that no single page of the context covers: eight of ten words, all numbers."""
    pages = [words(f"{hit.page.title}\n{hit.page.text}") for hit in answered.context]
    found = []
    for sentence in re.split(r"(?<=[.!?])\s+", answered.answer):
        claimed = words(re.sub(r"\[\d+\]", "", sentence))
        numbers = {word for word in claimed if word[0].isdigit()}
        covered = any(
            numbers <= page and len(claimed & page) >= 0.8 * len(claimed) for page in pages
        )
        if not covered:
            found.append(sentence)
    return found


def played(script: Script, live: Assistant, kind: str) -> list[tuple[PlantedAnswer, Answered]]:
    items = [item for item in script.planted if item.kind == kind]
    assert len(items) >= 2
    return [(item, live.answer(item.question, channel=item.channel)) for item in items]


def test_there_are_about_forty_pages_with_unique_numeric_ids() -> None:
    ids = [page.page_id for page in load_pages()]
    assert 40 <= len(ids) <= 50
    assert len(set(ids)) == len(ids)
    assert all(page_id.isdigit() for page_id in ids)


def test_one_page_says_that_pro_includes_sso_and_another_that_it_costs_extra() -> None:
    pages = {page.page_id: page.text for page in load_pages()}
    assert "SSO is included on Pro" in pages["212"]
    assert "Single sign-on is a paid add-on on Pro" in pages["1140"]


def test_the_sso_answer_is_backed_by_its_context_yet_half_of_the_truth(live: Assistant) -> None:
    answered = live.answer("Is SSO included in the Pro plan?")
    assert "212" in page_ids(answered.context)
    assert "1140" not in page_ids(answered.candidates)
    assert answered.answer == "SSO is included on Pro [1]."
    assert unsupported(answered) == []


def test_the_repaired_assistant_finds_both_pages_of_the_sso_question(fixed: Assistant) -> None:
    answered = fixed.answer("Is SSO included in the Pro plan?")
    assert {"212", "1140"} <= set(page_ids(answered.context))
    assert "paid add-on" in answered.answer
    assert unsupported(answered) == []


def test_every_kind_of_failure_is_planted_and_there_are_about_25(script: Script) -> None:
    assert {item.kind for item in script.planted} == set(KINDS)
    assert 25 <= len(script.planted) <= 32


def test_a_missing_page_is_nowhere_and_the_assistant_answers_anyway(
    script: Script, live: Assistant
) -> None:
    corpus = words("\n".join(f"{page.title}\n{page.text}" for page in load_pages()))
    for item, answered in played(script, live, "page_missing"):
        assert item.sources == []
        assert len({word.casefold() for word in item.false_words} - corpus) >= 2
        assert unsupported(answered) != []


def test_a_page_that_was_not_retrieved_is_not_among_the_candidates(
    script: Script, live: Assistant
) -> None:
    for item, answered in played(script, live, "not_retrieved"):
        assert set(item.sources) - set(page_ids(answered.candidates))


def test_a_page_that_was_ranked_out_is_a_candidate_and_not_in_the_context(
    script: Script, live: Assistant
) -> None:
    for item, answered in played(script, live, "ranked_out"):
        assert answered.reranked
        assert set(item.sources) <= set(page_ids(answered.candidates))
        assert set(item.sources) - set(page_ids(answered.context))


@pytest.mark.parametrize("kind", ["ignored", "misread", "wrong_refusal", "wrong_citation"])
def test_what_generation_spoiled_had_all_its_pages_in_the_context(
    script: Script, live: Assistant, kind: str
) -> None:
    for item, answered in played(script, live, kind):
        assert set(item.sources) <= set(page_ids(answered.context))


def test_a_misread_answer_contradicts_a_word_of_its_context(
    script: Script, live: Assistant
) -> None:
    for item, answered in played(script, live, "misread"):
        assert item.true_words
        assert item.false_words
        context = words(context_of(answered))
        assert {word.casefold() for word in item.true_words} <= context
        assert not set(item.true_words) & words(answered.answer)


def test_an_invented_claim_stands_beside_the_context_and_not_in_it(
    script: Script, live: Assistant
) -> None:
    for item, answered in played(script, live, "invented_claim"):
        assert item.sources[0] in page_ids(answered.context)
        assert item.false_words
        assert len(words(answered.answer) & words(context_of(answered))) >= 4


def test_a_lucky_answer_shares_its_fact_with_a_page_that_it_has_not_seen(
    script: Script, live: Assistant
) -> None:
    pages = {page.page_id: words(page.text) for page in load_pages()}
    for item, answered in played(script, live, "lucky"):
        assert not set(item.sources) & set(page_ids(answered.context))
        unseen = words(answered.answer) - words(context_of(answered))
        assert unseen & pages[item.sources[0]]


def test_the_false_words_are_in_the_answer_and_not_in_its_context(
    script: Script, live: Assistant
) -> None:
    for item in script.planted:
        answered = live.answer(item.question, channel=item.channel)
        context = words(context_of(answered)) | words(context_of(answered).replace("-", " "))
        said = words(answered.answer) | words(re.sub(r"[-.]", " ", answered.answer))
        false = {word.casefold() for word in item.false_words}
        assert false <= said, item.id
        assert not false & context, item.id
        assert bool(false) == item.claims_found, item.id


def test_only_failures_without_a_false_claim_are_supported_by_their_context(
    script: Script, live: Assistant
) -> None:
    for item in script.planted:
        answered = live.answer(item.question, channel=item.channel)
        if item.kind != "wrong_refusal":
            assert (unsupported(answered) != []) == item.claims_found, item.id


def test_a_wrong_citation_points_nowhere_or_to_a_page_without_the_claim(
    script: Script, live: Assistant
) -> None:
    for item, answered in played(script, live, "wrong_citation"):
        (cited,) = citations(answered.answer)
        if cited <= len(answered.context):
            assert answered.context[cited - 1].page.page_id not in item.sources
        assert unsupported(answered) == []


def test_good_answers_have_their_pages_and_every_sentence_is_in_one_of_them(
    script: Script, live: Assistant, fixed: Assistant
) -> None:
    for good in script.answers:
        for question in good.questions:
            for channel in CHANNELS:
                for assistant in (live, fixed):
                    answered = assistant.answer(question, channel=channel)
                    assert set(good.sources) <= set(page_ids(answered.context)), question
                    assert unsupported(answered) == [], question
                    assert citations(answered.answer), question


def test_asking_again_in_other_words_is_answered_well(script: Script, live: Assistant) -> None:
    asked_again = [item for item in script.planted if item.rephrased]
    assert len(asked_again) >= 3
    for item in asked_again:
        answered = live.answer(item.rephrased or "", channel=item.channel)
        assert set(item.sources) <= set(page_ids(answered.context))
        assert unsupported(answered) == []


def test_the_repaired_assistant_repairs_every_planted_failure(
    script: Script, fixed: Assistant
) -> None:
    for item in script.planted:
        answered = fixed.answer(item.question, channel=item.channel)
        assert set(item.sources) <= set(page_ids(answered.context)), item.id
        if item.sources:
            assert unsupported(answered) == [], item.id
            cited = {answered.context[n - 1].page.page_id for n in citations(answered.answer)}
            assert cited == set(item.sources), item.id
        else:
            assert "don't know" in answered.answer


def test_questions_belong_to_the_segment_that_the_agent_gives_them(script: Script) -> None:
    segment = Segmenter(SegmentsConfig())
    expected = [(q, good.segment) for good in script.answers for q in good.questions]
    expected += [(item.question, item.segment) for item in script.planted]
    for question, name in expected:
        request = RagRequest(trace_id="0" * 32, question=question)
        assert segment(request, Trace(trace_id="0" * 32)) == name, question
    assert {name for _, name in expected} == {
        "lookup",
        "comparison",
        "multi_part",
        "identifier",
        "negation",
    }


def test_no_question_stands_twice_in_the_script(script: Script) -> None:
    questions = [q for good in script.answers for q in good.questions]
    questions += [item.question for item in script.planted]
    questions += [item.rephrased for item in script.planted if item.rephrased]
    questions += [refusal.question for refusal in script.unanswerable]
    assert len(set(questions)) == len(questions)


def test_a_page_outside_the_context_cannot_be_cited() -> None:
    assert cite("A [p5]. B [p7].", ["7", "9"]) == "A. B [1]."


def test_off_script_the_assistant_quotes_a_page_or_declines(live: Assistant) -> None:
    quoted = live.answer("How long is a certificate valid?")
    assert quoted.kind is None
    assert unsupported(quoted) == []
    assert citations(quoted.answer)
    assert "don't know" in live.answer("Do penguins like jazz?").answer


def test_golden_rows_name_pages_that_exist_and_quotes_that_stand_there() -> None:
    pages = {page.page_id: page.text for page in load_pages()}
    rows = load_yaml("golden.yaml")
    assert 28 <= len(rows) <= 40
    assert len({row["id"] for row in rows}) == len(rows)
    assert sum(not row["answerable"] for row in rows) >= 5
    for row in rows:
        assert set(row["gold_sources"]) <= set(pages), row["id"]
        assert bool(row["gold_sources"]) == row["answerable"], row["id"]
        for quote in row.get("quotes", []):
            assert any(quote in pages[source] for source in row["gold_sources"]), row["id"]


def test_the_golden_set_tells_the_two_assistants_apart(live: Assistant, fixed: Assistant) -> None:
    rows = [row for row in load_yaml("golden.yaml") if row["answerable"]]

    def recall(assistant: Assistant) -> float:
        shares = []
        for row in rows:
            top = page_ids(assistant.answer(row["question"]).context)[:5]
            shares.append(
                sum(page in top for page in row["gold_sources"]) / len(row["gold_sources"])
            )
        return sum(shares) / len(shares)

    assert recall(live) < 0.85
    assert recall(fixed) == 1.0
