"""The local judge on sentences whose verdict anybody can see."""

from __future__ import annotations

import time

import pytest

from collector.model import Claim, Document, RagRequest
from scorers.faithfulness import verify_quotes
from scorers.lexical import LexicalJudge, LexicalResult, lexical_score
from scorers.lexical_claims import split_claims
from scorers.lexical_numbers import canonical
from scorers.lexical_text import language, sentences


def judged(answer: str, *texts: str, title: str | None = None) -> LexicalResult:
    documents = [Document(rank=n, title=title, text=text) for n, text in enumerate(texts, 1)]
    return lexical_score(
        RagRequest(trace_id="0" * 32, question="Why?", answer=answer, documents=documents)
    )


def only_claim(answer: str, *texts: str) -> Claim:
    (claim,) = judged(answer, *texts).claims
    return claim


PLANS = "The Pro plan includes SSO and audit logs. The Free plan has neither of them."


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param("The Pro plan includes SSO.", PLANS, id="verbatim"),
        pytest.param("Audit logs are included in the Pro plan.", PLANS, id="other word order"),
        pytest.param("Refunds take 5 days.", "Refunds take five days.", id="number word"),
        pytest.param("It costs 1,200 dollars.", "It costs $1200.", id="thousands separator"),
        pytest.param("It has 2.5 million users.", "It has 2,500,000 users.", id="million"),
        pytest.param(
            "Acme was founded on 5 March 2016.", "Acme was founded on 2016-03-05.", id="date"
        ),
        pytest.param("Acme opened on Jan 5.", "Acme opened on 5 January.", id="short month"),
        pytest.param(
            "El plan cuesta 49,90 euros.", "El plan cuesta 49.90 €.", id="comma, currency"
        ),
        pytest.param("Verträge sind kündbar.", "Der Vertrag ist kündbar.", id="German plural"),
        pytest.param("Les plans incluent le SSO.", "Le plan inclut le SSO.", id="French"),
        pytest.param(
            "プロプランにはSSOが含まれます。", "プロプランにはSSOが含まれます。他。", id="Japanese"
        ),
        pytest.param("专业版包括单点登录。", "专业版包括单点登录和审计日志。", id="Chinese"),
    ],
)
def test_a_claim_in_other_words_or_another_notation_is_supported(answer: str, text: str) -> None:
    assert only_claim(answer, text).verdict == "SUPPORTED"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param("The Pro plan costs $49.", "The Pro plan costs $59.", id="price"),
        pytest.param("The limit is 10 GB.", "The limit is 10 MB per file.", id="unit"),
        pytest.param("Refunds take 5 days.", "Refunds take 5 weeks.", id="days or weeks"),
        pytest.param("The fee is 5%.", "The fee is 7 percent.", id="percent"),
        pytest.param("Pro does not include SSO.", "Pro includes SSO.", id="negated claim"),
        pytest.param("Pro includes SSO.", "Pro doesn't include SSO.", id="negated evidence"),
        pytest.param("Pro enthält kein SSO.", "Pro enthält SSO.", id="German negation"),
        pytest.param("Pro n'inclut pas le SSO.", "Pro inclut le SSO.", id="French negation"),
        pytest.param("Pro no incluye SSO.", "Pro incluye SSO.", id="Spanish negation"),
    ],
)
def test_another_amount_or_a_negation_contradicts(answer: str, text: str) -> None:
    claim = only_claim(answer, text)
    assert claim.verdict == "CONTRADICTED"
    assert claim.quote == text
    assert claim.document_rank == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param("Cats sleep most of the day.", PLANS, id="another subject"),
        pytest.param("It was founded in 1998 in Oslo.", "It was founded in Oslo.", id="a number"),
        pytest.param("It is what it is, all of it.", PLANS, id="hardly a content word"),
    ],
)
def test_what_the_context_does_not_say_is_not_found(answer: str, text: str) -> None:
    claims = judged(answer, text).claims
    assert {claim.verdict for claim in claims} <= {"NOT_FOUND"}
    assert all(claim.quote is None for claim in claims)


async def test_a_sentence_of_which_one_half_is_backed_is_two_claims() -> None:
    request = RagRequest(
        trace_id="0" * 32,
        question="Does the Pro plan come with SSO?",
        answer="SSO is included on Pro, at no extra cost.",
        documents=[Document(rank=1, text="SSO is included on Pro.")],
    )
    judgement = await LexicalJudge().judge(request)
    assert judgement.score == 0.5
    assert [(claim.text, claim.verdict) for claim in judgement.claims] == [
        ("SSO is included on Pro", "SUPPORTED"),
        ("at no extra cost.", "NOT_FOUND"),
    ]


def test_a_list_of_names_stays_one_claim() -> None:
    claim = only_claim("Pro includes SSO, SCIM, backups, and unicorns.", PLANS)
    assert claim.text == "Pro includes SSO, SCIM, backups, and unicorns."


def test_a_wrong_number_is_never_supported_however_long_the_claim() -> None:
    text = "The northern warehouse of the company in the old harbour of Oslo opened in 1998."
    assert only_claim(text, text).verdict == "SUPPORTED"
    assert only_claim(text.replace("1998", "1989"), text).verdict != "SUPPORTED"


def test_the_score_falls_as_words_are_added_that_the_context_does_not_hold() -> None:
    answers = (
        "The Pro plan includes SSO.",
        "The Pro plan includes SSO and backups.",
        "The Pro plan includes SSO, backups and unlimited storage.",
        "Unlimited storage and nightly backups come for free.",
    )
    scores = [judged(answer, PLANS).score or 0.0 for answer in answers]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > 0.9
    assert scores[-1] < 0.3


def test_evidence_is_quoted_verbatim_with_its_document_and_passes_verification() -> None:
    texts = ("Nothing here.", f"Intro.\n\n{PLANS}")
    claim = only_claim("The Pro plan includes SSO.", *texts)
    assert claim.document_rank == 2
    assert claim.quote == "The Pro plan includes SSO and audit logs."
    documents = [Document(rank=n, text=text) for n, text in enumerate(texts, 1)]
    assert verify_quotes([claim], documents) == [claim]


def test_evidence_may_spread_over_neighbouring_sentences() -> None:
    claim = only_claim(
        "The Pro plan of Acme includes SSO and costs 49 dollars.",
        "Acme sells a Pro plan. It includes SSO. It costs 49 dollars.",
    )
    assert claim.verdict == "SUPPORTED"
    assert claim.quote == "Acme sells a Pro plan. It includes SSO. It costs 49 dollars."


def test_the_title_of_a_document_is_context_too() -> None:
    result = judged("The Pro plan includes SSO.", "It includes SSO.", title="Pro plan")
    assert result.claims[0].verdict == "SUPPORTED"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param("One thing. Another thing.", ["One thing.", "Another thing."], id="sentences"),
        pytest.param(
            "Dr. Smith of Acme Inc. paid 10.5 dollars, i.e. all. He left.",
            ["Dr. Smith of Acme Inc. paid 10.5 dollars, i.e. all.", "He left."],
            id="abbreviations and decimals",
        ),
        pytest.param("SSO costs nothing [1][2, 3].", ["SSO costs nothing."], id="citations"),
        pytest.param(
            "SSO costs nothing【4:0†source】.", ["SSO costs nothing."], id="other citations"
        ),
        pytest.param("SSO [is free](http://x.y/z).", ["SSO is free."], id="links"),
        pytest.param("**SSO** is `free`.", ["SSO is free."], id="emphasis and code"),
        pytest.param(
            "# Plans\n\nPro includes:\n\n- SSO\n- Audit logs\n* Log exports are sent every day",
            [
                "Pro includes SSO",
                "Pro includes Audit logs",
                "Log exports are sent every day",
            ],
            id="short items with their introduction",
        ),
        pytest.param(
            "1. Open the settings page.\n2) Choose a region for it.",
            ["Open the settings page.", "Choose a region for it."],
            id="numbered steps",
        ),
        pytest.param(
            "| Plan | Price |\n|------|:-----:|\n| Pro | $49 |\n| Free | $0 |",
            ["Pro, $49", "Free, $0"],
            id="table rows",
        ),
        pytest.param(
            "Run this:\n```\nrm -rf build\n```\nIt cleans up.", ["It cleans up."], id="code"
        ),
        pytest.param(
            "A long line that an editor\nhas wrapped.\n\nNext one.",
            ["A long line that an editor has wrapped.", "Next one."],
            id="wrapped lines",
        ),
        pytest.param(
            "Hello! Pro includes SSO. I hope this helps! Anything else?",
            ["Pro includes SSO."],
            id="courtesy and questions",
        ),
        pytest.param(
            "Pro includes SSO. The documents do not mention a price.",
            ["Pro includes SSO."],
            id="an abstention",
        ),
        pytest.param("SSO is free.\n\nSources:\n[1] http://x.y", ["SSO is free."], id="references"),
        pytest.param(
            "日本語の文です。次の文です。", ["日本語の文です。", "次の文です。"], id="Japanese"
        ),
        pytest.param("Yes. SSO is free.", ["SSO is free."], id="yes, and why"),
        pytest.param("Yes.", ["Yes."], id="a bare yes"),
        pytest.param("SSO is free. SSO is free. SSO is free.", ["SSO is free."], id="a loop"),
        pytest.param("SSO is free.\n```\nunclosed code", ["SSO is free."], id="an open fence"),
        pytest.param("...\n\n---\n\n!!!", [], id="nothing"),
    ],
)
def test_an_answer_is_split_into_what_it_claims(answer: str, expected: list[str]) -> None:
    assert split_claims(answer, "en") == expected


def test_german_abbreviations_end_no_sentence() -> None:
    text = "Das kostet z. B. am 3. Oktober ca. 5,50 Euro. Danach ist es teurer."
    assert sentences(text, language(text)) == [
        "Das kostet z. B. am 3. Oktober ca. 5,50 Euro.",
        "Danach ist es teurer.",
    ]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1,200", "1200"),
        ("1.200.000", "1200000"),
        ("007", "7"),
        ("49.00", "49"),
        ("49,90", "49.90"),
        ("-5", "-5"),
        ("3.10", "3.10"),
        ("10:30", "10:30"),
        ("1.2.3", "1.2.3"),
    ],
)
def test_a_number_has_one_form(written: str, expected: str) -> None:
    assert canonical(written) == expected


@pytest.mark.parametrize(
    "unit",
    [
        *("[1", "[a](", "**a", "`a", "```\n", "x\n\n", "\n ", "| a |\n", "--|", "日本語。", "n't "),
        *("i do not ", "never ", "documents ", "2016-08-24 ", "1.1 ", "Ab ", "a", "... ", "¹"),
    ],
)
def test_hostile_texts_take_no_time_that_grows_with_their_square(unit: str) -> None:
    text = unit * (20_000 // len(unit))
    started = time.process_time()
    judged(text, text)
    judged(text, PLANS)
    judged("The Pro plan includes SSO.", text)
    claim = Claim(text="x", verdict="SUPPORTED", quote=text[:590] + "zz", document_rank=1)
    verify_quotes([claim], [Document(rank=1, text=text)])
    assert time.process_time() - started < 5


def test_an_answer_that_refuses_has_no_claims() -> None:
    assert judged("I don't know.", PLANS) == LexicalResult(None, [], "no_claims")


async def test_the_judge_reports_supported_claims_over_claims() -> None:
    request = RagRequest(
        trace_id="0" * 32,
        question="What is in Pro?",
        answer="The Pro plan includes SSO. The Pro plan comes with free pizza.",
        documents=[Document(rank=1, text=PLANS)],
    )
    judgement = await LexicalJudge().judge(request)
    assert judgement.score == 0.5
    assert judgement.engine == "lexical"
    assert judgement.usage.calls == 0
    assert LexicalJudge().fingerprint == "lexical-2"
