"""Golden answers judged: by a language model, by one that is busy, by one that fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collector.config import OpenAIConfig
from collector.errors import JudgeError, Postponed, TransientDependencyError
from collector.evaluation.answers import Answer
from collector.evaluation.folder import RunFolder
from collector.evaluation.run import evaluate
from collector.evaluation.session import PatientJudge
from collector.model import Document, Judgement, RagRequest
from collector.model_evaluation import EvalRow
from collector.ports import Judge
from scorers.judge.client import OpenAIJudge
from scorers.judge.methods import METHODS
from scorers.lexical import LexicalJudge
from sinks.golden_file import GoldenRow
from tests.fakes.evaluated import an_eval_run
from tests.fakes.openai_server import OpenAIServer

SSO = GoldenRow(
    id="sso",
    question="Is SSO included in the Pro plan?",
    reference_answer="SSO is available on the Pro plan. SSO costs 2 dollars per user and month.",
    gold_sources=["212"],
)
PAGE = Document(rank=1, document_id="212", text="SSO is available on the Pro plan.")


class OneAnswer:
    """An assistant that always says the same, and counts."""

    def __init__(self) -> None:
        self.asked = 0

    async def ask(self, row: GoldenRow) -> Answer:
        self.asked += 1
        said = "SSO is available on the Pro plan."
        return Answer(question_id=row.id, answer=said, documents=[PAGE])

    async def close(self) -> None:
        pass


class TroubledJudge(LexicalJudge):
    """The lexical judge, after some trouble."""

    def __init__(self, trouble: Sequence[Exception]) -> None:
        self._trouble = list(trouble)

    async def judge(self, request: RagRequest) -> Judgement:
        if not self._trouble:
            return await super().judge(request)
        trouble = self._trouble.pop(0)
        if isinstance(trouble, JudgeError):
            return Judgement(
                trace_id=request.trace_id,
                scorer="faithfulness",
                fingerprint=self.fingerprint,
                status="failed",
                reason=trouble.cause,
            )
        raise trouble


def begun_or_resumed(path: Path) -> RunFolder:
    return RunFolder(path) if path.exists() else RunFolder.create(path, an_eval_run())


async def run(
    path: Path, assistant: OneAnswer, judge: Judge, relevance: Judge | None = None
) -> EvalRow:
    with begun_or_resumed(path) as folder:
        (row,) = await evaluate(
            folder,
            [SSO],
            assistant,
            PatientJudge(judge),
            concurrency=2,
            advanced=lambda: None,
            relevance=relevance,
        )
    return row


async def test_a_language_model_judges_answer_and_reference(tmp_path: Path) -> None:
    with OpenAIServer() as server:
        prices = {"m": {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 1.0}}
        config = {"base_url": server.base_url, "model": "m", "prices": prices}
        judge = OpenAIJudge(OpenAIConfig.model_validate(config))
        row = await run(tmp_path / "run", OneAnswer(), judge)
        await judge.close()
    assert (row.measures["faithfulness"], row.measures["correctness"]) == (1.0, 0.5)
    assert [claim.verdict for claim in row.reference_claims] == ["SUPPORTED", "NOT_FOUND"]
    assert row.judge_cost_usd is not None
    assert row.judge_cost_usd > 0


async def test_answer_relevance_is_measured_where_a_judge_of_it_is_configured(
    tmp_path: Path,
) -> None:
    with OpenAIServer() as server:
        config = OpenAIConfig(base_url=server.base_url, model="m")
        relevance = OpenAIJudge(config, method=METHODS["answer_relevance"])
        row = await run(tmp_path / "run", OneAnswer(), LexicalJudge(), relevance)
        await relevance.close()
    # Most words of the question, which is all that it wants to know, stand in the answer.
    assert row.measures["answer_relevance"] == 1.0
    without = await run(tmp_path / "another", OneAnswer(), LexicalJudge())
    assert without.measures["answer_relevance"] is None
    assert without.undefined["answer_relevance"] == "answer_relevance is not among judge.scorers"


async def test_a_judge_that_may_not_judge_now_is_waited_for(tmp_path: Path) -> None:
    judge = TroubledJudge([Postponed("rate_limited", 0.05), Postponed("rate_limited", 0.05)])
    row = await run(tmp_path / "run", OneAnswer(), judge)
    assert row.measures["faithfulness"] == 1.0


async def test_a_judge_that_is_gone_for_long_ends_the_run_and_keeps_the_answers(
    tmp_path: Path,
) -> None:
    assistant = OneAnswer()
    judge = TroubledJudge([Postponed("budget_exhausted", 9 * 3600)])
    with pytest.raises(TransientDependencyError, match="budget_exhausted"):
        await run(tmp_path / "run", assistant, judge)
    row = await run(tmp_path / "run", assistant, judge)
    assert (row.measures["correctness"], assistant.asked) == (0.5, 1)


async def test_a_failed_judgement_is_no_number_and_is_tried_again_without_asking(
    tmp_path: Path,
) -> None:
    assistant = OneAnswer()
    judge = TroubledJudge([JudgeError("unparseable")])
    row = await run(tmp_path / "run", assistant, judge)
    assert row.measures["faithfulness"] is None
    assert row.failures == {"faithfulness": "unparseable"}
    row = await run(tmp_path / "run", assistant, judge)
    assert (row.measures["faithfulness"], row.failures, assistant.asked) == (1.0, {}, 1)
