"""The operator's rules first, then the built-in kinds of questions."""

import pytest

from collector.config import SegmentRule, SegmentsConfig
from collector.model import RagRequest, Span, Trace
from collector.segments import Segmenter

TRACE = Trace(
    trace_id="a",
    spans=[Span(trace_id="a", span_id="1", attributes={"tier": "pro"}, resource={"env": "eu"})],
)


def ask(question: str | None) -> RagRequest:
    return RagRequest(trace_id="a", question=question)


@pytest.mark.parametrize(
    ("question", "segment"),
    [
        ("What is the return policy?", "lookup"),
        ("Pro versus Team: which one has SSO?", "comparison"),
        ("What is the difference between Pro and Team?", "comparison"),
        ("What does error E-4012 mean?", "identifier"),
        ("Which plans do not include SSO?", "negation"),
        ("How do I export data and how long does it take?", "multi_part"),
        ("What is SAML? Who can set it up?", "multi_part"),
        ("When was 2024-05 released?", "lookup"),
        (None, "lookup"),
    ],
)
def test_built_in_kinds(question: str | None, segment: str) -> None:
    assert Segmenter(SegmentsConfig())(ask(question), TRACE) == segment


def test_the_first_rule_that_matches_decides() -> None:
    rules = [
        SegmentRule(name="billing", question_matches=r"\binvoice"),
        SegmentRule(name="paying", attribute="tier", equals="pro"),
        SegmentRule(name="region", attribute="env"),
    ]
    segmenter = Segmenter(SegmentsConfig(rules=rules))
    assert segmenter(ask("Where is my Invoice?"), TRACE) == "billing"
    assert segmenter(ask("Where is it?"), TRACE) == "paying"
    assert Segmenter(SegmentsConfig(rules=rules[2:]))(ask("Where is it?"), TRACE) == "eu"


def test_segments_are_bounded_in_number() -> None:
    config = SegmentsConfig(rules=[SegmentRule(name="x", attribute="user")], max_segments=3)
    segmenter = Segmenter(config)
    names = set()
    for number in range(10):
        span = Span(trace_id="a", span_id="1", attributes={"user": f"u{number}"})
        names.add(segmenter(ask("?"), Trace(trace_id="a", spans=[span])))
    assert names == {"u0", "u1", "u2", "other"}
