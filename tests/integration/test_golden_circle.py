"""The full circle: a failure in production becomes a golden row that fails until it is mended."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest
from typer.testing import CliRunner

from collector.cli import app
from collector.demo.assistant import Assistant
from collector.demo.scenario import scenario
from collector.demo.script import load_script
from collector.demo.traffic import play
from sinks import golden_file
from sinks.golden_file import GoldenRow
from tests.fakes.assistants import AssistantServer
from tests.processes import AgentProcess
from tests.readme_tables import README

QUIET = {"assembler": {"quiet_seconds": 0.2}}
PLANTED = "annual-refund"
DATED_BACK_SECONDS = 4.0
"""Of the demo's questions: the time that the longest answer takes."""


class Helpdesk:
    """The demo's assistant, broken until it is repaired, behind HTTP and in production."""

    def __init__(self) -> None:
        self.assistant = Assistant()

    def repair(self, *, done: bool = True) -> None:
        self.assistant = Assistant(fixed=done)

    def respond(self, body: dict[str, Any]) -> dict[str, Any]:
        given = self.assistant.answer(body["question"])
        found = [{"id": hit.page.page_id, "text": hit.page.text} for hit in given.context]
        return {"answer": given.answer, "documents": found}


class Circle(NamedTuple):
    """What the test works with: an agent, the assistant it watches, the failure planted in it."""

    agent: AgentProcess
    helpdesk: Helpdesk
    target: str
    question: str
    reference: str
    page: str

    def run(self, *words: str, code: int = 0) -> str:
        done = self.agent.run_command(*words)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def asked_in_production(self, run_id: str) -> None:
        """Let a user ask the question, and wait until the answer is stored."""
        story = scenario(7, run_id=run_id)
        told = [
            msgspec.structs.replace(c, turns=c.turns[:1], channel="web")
            for c in story.conversations
            if c.turns[0].question == self.question
        ]
        before = self.agent.totals()["judged"]
        time.sleep(DATED_BACK_SECONDS)  # so that it is asked after whatever was done before
        alone = msgspec.structs.replace(story, conversations=told[:1], planted=[])
        url = self.agent.urls["otlp_http"]
        asyncio.run(play(alone, otlp_url=url, assistant=self.helpdesk.assistant))
        deadline = time.monotonic() + 60
        while self.agent.totals()["judged"] == before:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def candidate(self) -> dict[str, Any]:
        (found,) = self.agent.report("candidates")["candidates"]
        assert found["question"] == self.question
        return dict(found)

    def evaluate(self, golden: Path, name: str) -> None:
        self.run("eval", str(golden), "--target", self.target, "--run", name)


@pytest.fixture
def circle(tmp_path: Path) -> Iterator[Circle]:
    planted = next(one for one in load_script().planted if one.id == PLANTED)
    reference = planted.reference.partition(" [")[0] + "."
    helpdesk = Helpdesk()
    with AgentProcess(tmp_path, QUIET) as agent, AssistantServer(helpdesk.respond) as server:
        yield Circle(agent, helpdesk, server.url, planted.question, reference, planted.sources[0])


def test_a_failure_becomes_a_golden_row_that_tells_mended_from_broken_and_back(
    circle: Circle, tmp_path: Path
) -> None:
    golden = tmp_path / "golden.yaml"
    golden.write_text("# ours\n- id: q1\n  question: What is it?\n")
    circle.asked_in_production("first")
    found = circle.candidate()
    assert (found["state"], found["times"], found["standing"]) == ("unreviewed", 1, None)

    words = ("golden", "accept", found["id"], "--by", "Ana")
    assert "say --unanswerable" in circle.run(*words, code=2)
    source = ("--source", circle.page)
    assert "reference_answer: write the right answer" in circle.run(*words, *source, code=2)
    given = (*source, "--reference-answer", circle.reference)
    assert circle.run(*words, *given) == f"{found['id']}: accepted by Ana\n"
    assert "1 accepted added, 0 unreviewed" in circle.run("golden", "export", str(golden))
    assert golden.read_text().startswith("# ours\n- id: q1\n  question: What is it?\n")
    row = golden_file.load(golden)[-1]
    assert (row.id, row.question) == (found["id"], circle.question)
    assert (row.reference_answer, row.gold_sources) == (circle.reference, [circle.page])
    provenance = row.extra["provenance"]
    assert provenance["accepted_by"] == "Ana"
    assert {"trace_id", "signals", "judge", "inclusion_probability"} <= provenance.keys()
    assert circle.candidate()["standing"]["name"] == "failing"  # it was, in production

    circle.evaluate(golden, "broken")
    assert circle.candidate()["standing"]["name"] == "failing"
    circle.helpdesk.repair()
    circle.evaluate(golden, "repaired")
    assert circle.candidate()["standing"]["name"] == "fixed"

    circle.helpdesk.repair(done=False)
    circle.asked_in_production("second")
    again = circle.candidate()
    assert (again["state"], again["standing"]["name"], again["times"]) == (
        "exported",
        "regression",
        2,
    )
    page = httpx.get(circle.agent.urls["review"], params={"since": "24h"}, trust_env=False).text
    assert f"Golden row {found['id']}: came back: right in run repaired on" in page
    circle.helpdesk.repair()
    circle.evaluate(golden, "repaired-again")
    assert circle.candidate()["standing"]["name"] == "fixed"
    circle.helpdesk.repair(done=False)
    circle.evaluate(golden, "undone")
    said = circle.candidate()["standing"]["said"]
    assert said.startswith("came back: right in run repaired-again on ")
    assert "wrong in run undone on " in said
    assert f"Golden row {found['id']}: came back" in circle.run("review", "report")


def test_candidates_are_edited_rejected_and_drafted_also_while_no_agent_runs(
    circle: Circle, tmp_path: Path
) -> None:
    circle.asked_in_production("first")
    circle.agent.stop()

    def candidate() -> dict[str, Any]:
        (found,) = json.loads(circle.run("golden", "candidates", "--json"))
        return dict(found)

    name = candidate()["id"]
    edit = ("golden", "edit", name, "--by", "Ben", "--segment", "refunds")
    assert circle.run(*edit) == f"{name}: edited by Ben\n"
    found = candidate()
    assert (found["state"], found["by"], found["segment"]) == ("edited", "Ben", "refunds")
    assert "name what to change" in circle.run("golden", "edit", name, "--by", "Ben", code=2)
    nothing = circle.run("golden", "export", str(tmp_path / "golden.yaml"))
    assert nothing.endswith("no candidates in this window\n")
    assert circle.run("golden", "reject", name, "--by", "Eva") == f"{name}: rejected by Eva\n"
    assert candidate()["state"] == "rejected"
    accept = ("golden", "accept", name, "--by", "Eva", "--unanswerable")
    assert circle.run(*accept) == f"{name}: accepted by Eva\n"
    assert "no candidate of this window" in circle.run(
        "golden", "reject", "live-0", "--by", "Eva", code=2
    )


def test_a_draft_in_the_file_gives_way_to_what_is_accepted(circle: Circle, tmp_path: Path) -> None:
    circle.asked_in_production("first")
    golden = tmp_path / "golden.yaml"
    golden.write_text("# ours\n- {id: q1, question: What is it?}\n")
    name = circle.candidate()["id"]
    circle.run("golden", "export", str(golden))
    assert golden_file.load(golden)[1].extra["draft"]
    circle.run("golden", "accept", name, "--by", "Ana", "--unanswerable")
    assert "1 accepted added, 0 unreviewed" in circle.run("golden", "export", str(golden))
    first, second = golden_file.load(golden)
    assert (first.id, second.id, "draft" in second.extra) == ("q1", name, False)
    assert golden.read_text().startswith("# ours\n- {id: q1, question: What is it?}\n")
    assert circle.candidate()["state"] == "exported"


def test_the_commands_of_the_readme_take_a_failure_into_the_set(
    circle: Circle, tmp_path: Path
) -> None:
    circle.asked_in_production("first")
    name = circle.candidate()["id"]
    golden, pages = tmp_path / "golden.yaml", tmp_path / "pages.txt"
    golden_file.append(golden, [GoldenRow(id="a", question="Is SSO on Pro?", segment="lookup")])
    pages.write_text("page-311\n")
    (section,) = re.findall(r"## Golden rows\n.*?```bash\n(.*?)```", README.read_text(), re.DOTALL)
    real = {"live-1f2e3d4c5b": name, "golden.yaml": str(golden), "pages.txt": str(pages)}
    candidates, accept, export, lint, coverage, shape = (
        [real.get(word, word) for word in shlex.split(line)[1:]] for line in section.splitlines()
    )
    stale = json.loads(circle.run(*coverage, "--json", code=1))
    assert stale["stale"] == ["no golden question covers 100% of the requests"]
    assert [one["question"] for one in stale["uncovered"]] == [circle.question]
    assert name in circle.run(*candidates)
    assert circle.run(*accept).endswith("accepted by Ana\n")
    assert "1 accepted added" in circle.run(*export)
    found = CliRunner().invoke(app, lint)
    assert found.exit_code == 1  # the row that was there has neither page nor answer
    errors = [line for line in found.output.splitlines() if ": error: " in line]
    assert [line.split(": ")[1] for line in errors] == ["a", "a"]
    assert "cover 100% of 1 requests compared (1 in all)\nnot stale\n" in circle.run(*coverage)
    done = CliRunner().invoke(app, shape)
    assert json.loads(done.output.splitlines()[1])["reference_context_ids"] == ["page-311"]
    (again,) = json.loads(circle.run(*candidates, "--golden", str(golden), "--json"))
    assert (again["same_as"], again["state"]) == (name, "exported")
