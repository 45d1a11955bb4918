"""Whatever a judge replies, evidence is only what stands in the context."""

from hypothesis import given
from hypothesis import strategies as st

from collector.model import Claim, Document, RagRequest, Verdict
from scorers.faithfulness import score, verify_quotes
from scorers.lexical import lexical_score
from scorers.lexical_text import fold
from scorers.refusal import is_refusal

VERDICTS: list[Verdict] = ["SUPPORTED", "CONTRADICTED", "NOT_FOUND"]
WORDS = st.sampled_from(
    [
        *("the", "Pro", "plan", "costs", "49", "$59.90", "not", "includes", "SSO", "日本語", "é."),
        *(
            "2016-08-24",
            "5 GB",
            "\n",
            "…",
            "[1]",
            "- ",
            "| a |",
            "?",
            "No,",
            "won't",
            "¹",
            "\ud800",
        ),
    ]
)
TEXTS = st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=25).map(" ".join))
DOCUMENTS = st.lists(TEXTS, max_size=4).map(
    lambda texts: [Document(rank=rank, text=text) for rank, text in enumerate(texts, 1)]
)
CLAIMS = st.lists(
    st.builds(
        lambda text, verdict, quote, rank: Claim(
            text=text, verdict=verdict, quote=quote, document_rank=rank
        ),
        TEXTS,
        st.sampled_from(VERDICTS),
        st.none() | TEXTS,
        st.none() | st.integers(-1, 5),
    ),
    max_size=5,
)


@given(CLAIMS, DOCUMENTS)
def test_verifying_only_ever_takes_evidence_away(
    claims: list[Claim], documents: list[Document]
) -> None:
    verified = verify_quotes(claims, documents)
    assert [claim.text for claim in verified] == [claim.text for claim in claims]
    ranks = {document.rank for document in documents}
    for before, after in zip(claims, verified, strict=True):
        assert after.verdict in (before.verdict, "NOT_FOUND")
        if after.verdict == "NOT_FOUND":
            assert after.quote is None
            assert after.document_rank is None
        else:
            assert after.document_rank in ranks
    if claims:
        assert score(verified) <= score(claims)


@given(CLAIMS, DOCUMENTS)
def test_verifying_twice_changes_nothing_more(
    claims: list[Claim], documents: list[Document]
) -> None:
    once = verify_quotes(claims, documents)
    assert verify_quotes(once, documents) == once


@given(st.data(), TEXTS, TEXTS)
def test_a_passage_of_whole_words_is_found_however_it_is_spaced_and_cased(
    data: st.DataObject, text: str, other: str
) -> None:
    words = fold(text).split()
    start = data.draw(st.integers(0, max(0, len(words) - 1)))
    passage = words[start : data.draw(st.integers(start, len(words)))]
    quote = data.draw(st.sampled_from([" ", "  ", "\n", " ** "])).join(passage).upper()
    claim = Claim(text="x", verdict="SUPPORTED", quote=quote, document_rank=1)
    documents = [Document(rank=1, text=other), Document(rank=2, text=text)]
    (found,) = verify_quotes([claim], documents)
    is_evidence = sum(len(word) for word in passage if word.isalpha()) >= 3
    if is_evidence and fold(quote) == " ".join(passage) and "sso" in passage:
        assert found.verdict == "SUPPORTED"


@given(TEXTS, DOCUMENTS)
def test_the_local_judge_scores_any_text_within_bounds_and_quotes_verbatim(
    answer: str, documents: list[Document]
) -> None:
    request = RagRequest(trace_id="0" * 32, question="Why?", answer=answer, documents=documents)
    result = lexical_score(request)
    if result.score is None:
        assert result.reason is not None
        assert result.claims == []
        return
    assert result.reason is None
    assert 0.0 <= result.score <= 1.0
    texts = {document.rank: document.text or "" for document in documents}
    for claim in result.claims:
        if claim.verdict == "NOT_FOUND":
            assert claim.quote is None
        else:
            assert claim.quote
            assert claim.document_rank is not None
            assert claim.quote in texts[claim.document_rank]


@given(TEXTS, DOCUMENTS)
def test_the_local_judge_is_a_function_of_the_request(
    answer: str, documents: list[Document]
) -> None:
    request = RagRequest(trace_id="0" * 32, question="Why?", answer=answer, documents=documents)
    assert lexical_score(request) == lexical_score(request)


@given(TEXTS)
def test_an_answer_that_refuses_still_refuses_among_blank_lines(answer: str) -> None:
    assert is_refusal(f"\n {answer}\n\n") == is_refusal(answer)
