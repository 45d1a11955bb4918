"""The free local judge tells the demo's good answers from those whose claims are false."""

from collector.demo.assistant import Answered, Assistant
from collector.demo.scenario import scenario
from collector.demo.script import load_script
from collector.model import Document, RagRequest
from scorers.lexical import LexicalResult, lexical_score

# "SSO is included on Pro, at no extra cost." is one sentence with one false half: a judge has to
# split it to see that, and the local one splits by sentences.
NEEDS_SPLITTING = {"Does the Pro plan come with SSO?"}


def judged(answered: Answered) -> LexicalResult:
    documents = [
        Document(rank=rank, document_id=hit.page.page_id, text=hit.page.text)
        for rank, hit in enumerate(answered.context, start=1)
    ]
    return lexical_score(
        RagRequest(
            trace_id="0" * 32,
            question=answered.question,
            answer=answered.answer,
            documents=documents,
        )
    )


def test_good_answers_score_high_and_false_claims_low() -> None:
    script = load_script()
    assistant = Assistant(script=script)
    found = {planted.question: planted.found_by for planted in scenario(7, script=script).planted}
    good: list[float | None] = []
    for conversation in scenario(7, script=script).conversations:
        for turn in conversation.turns:
            result = judged(assistant.answer(turn.question, channel=conversation.channel))
            if turn.kind == "good":
                good.append(result.score)
            elif turn.kind == "right_refusal":
                assert result.reason in {"no_claims", "no_context"}
            elif turn.question in NEEDS_SPLITTING:
                assert found[turn.question] == "both"
            elif found[turn.question] in {"claims", "both"}:
                assert result.score is not None
                assert result.score < 0.8, turn.question
            else:
                assert result.score is None or result.score >= 0.8, turn.question
    assert sum(score is not None and score >= 0.8 for score in good) >= 0.95 * len(good)
