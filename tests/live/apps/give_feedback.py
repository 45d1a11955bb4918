"""Gives feedback with the real clients of Langfuse, LangSmith and Phoenix, all at one address.

The traces to give it on come as JSON in the environment, see `tests.live.feedback`.
"""

from __future__ import annotations

import json
import os
import threading
import uuid

from langfuse import Langfuse
from langsmith import Client as LangSmith
from phoenix.client import Client as Phoenix

URL = os.environ["FEEDBACK_URL"]
TRACES = json.loads(os.environ["FEEDBACK_TRACES"])
PROJECT = uuid.uuid4()


def langfuse() -> None:
    client = Langfuse(host=URL, public_key="pk", secret_key="key")

    def score(case: str, value: object, **more: object) -> None:
        client.create_score(
            name="user-feedback", value=value, trace_id=TRACES[case]["trace_id"], **more
        )

    score("langfuse_trace", 0, data_type="BOOLEAN", comment="old price")
    span_id = TRACES["langfuse_span"]["span_id"]
    score("langfuse_span", 1, data_type="BOOLEAN", observation_id=span_id)
    client.create_score(
        name="user-rating", value=2, session_id=TRACES["langfuse_session"]["conversation_id"]
    )
    score("langfuse_label", "bad", data_type="CATEGORICAL")
    score("langfuse_changed", 0, data_type="BOOLEAN", score_id="changed-1")
    client.flush()
    score("langfuse_changed", 1, data_type="BOOLEAN", score_id="changed-1")
    score("langfuse_deleted", 0, data_type="BOOLEAN", score_id="deleted-1")
    evaluated = TRACES["langfuse_evaluator"]["trace_id"]
    client.create_score(name="faithfulness", value=0.1, trace_id=evaluated)
    client.flush()
    client.api.scores.delete("deleted-1")
    client.shutdown()


def langsmith() -> None:
    client = LangSmith(api_url=URL, api_key="key")

    def feedback(case: str, **more: object) -> object:
        return client.create_feedback(
            run_id=TRACES[case]["run_id"], key="user_score", session_id=PROJECT, **more
        )

    feedback("langsmith_root", score=0, comment="old price")
    root = uuid.UUID(TRACES["langsmith_child"]["trace_id"])
    feedback("langsmith_child", score=1, trace_id=root)
    changed = feedback("langsmith_changed", score=1)
    client.update_feedback(changed.id, score=0, comment="after all")
    deleted = feedback("langsmith_deleted", score=0)
    client.delete_feedback(deleted.id)
    feedback("langsmith_evaluator", score=0.1, feedback_source_type="model")
    client.flush()


def phoenix() -> None:
    client = Phoenix(base_url=URL, api_key="key")

    def on_span(case: str, score: float, **more: object) -> None:
        client.spans.add_span_annotation(
            span_id=TRACES[case]["span_id"], annotation_name="thumbs", score=score, **more
        )

    on_span("phoenix_span", 0, annotator_kind="HUMAN", explanation="old price", identifier="u-7")
    on_span("phoenix_changed", 0, annotator_kind="HUMAN", identifier="u-7")
    on_span("phoenix_changed", 1, annotator_kind="HUMAN", identifier="u-7", sync=True)
    on_span("phoenix_evaluator", 0, annotator_kind="LLM")
    client.traces.add_trace_annotation(
        trace_id=TRACES["phoenix_trace"]["trace_id"], annotation_name="thumbs", score=0
    )
    client.sessions.add_session_annotation(
        session_id=TRACES["phoenix_session"]["conversation_id"], annotation_name="thumbs", score=0
    )
    client.spans.add_document_annotation(
        span_id=TRACES["phoenix_document"]["span_id"],
        document_position=0,
        annotation_name="relevance",
        annotator_kind="HUMAN",
        score=0,
    )
    client.spans.add_span_note(span_id=TRACES["phoenix_note"]["span_id"], note="old price")


# A client that fails in the background fails here.
threading.excepthook = lambda failed: os._exit(print(repr(failed.exc_value)) or 1)
langfuse()
langsmith()
phoenix()
