"""Which setting of which instrumentation brings back what a trace lacks.

By convention, since the instrumentation that sent a span is known by what it wrote. `""` is the
general cure. Sources: the documentation of each instrumentation, as named in its module of
`collector.conventions`; of the limits and samplers, the OpenTelemetry specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Cures = Mapping[str, str]

CONTENT: Cures = {
    "openinference": "leave OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and the other "
    "OPENINFERENCE_HIDE_… unset or false, in the environment and in TraceConfig",
    "openllmetry": "set TRACELOOP_TRACE_CONTENT=true, or leave it unset",
    "vector-db": "set TRACELOOP_TRACE_CONTENT=true, or leave it unset; Spring AI: "
    "spring.ai.vectorstore.observations.log-query-response=true",
    "otel-genai": "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_AND_EVENT and "
    "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental; older instrumentations want true "
    "and send content as log records only, so export these too: OTEL_LOGS_EXPORTER=otlp. "
    "Spring AI: spring.ai.chat.observations.log-prompt=true and log-completion=true",
    "langfuse": "leave capture_input and capture_output of @observe on, and "
    "LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED unset",
    "langsmith": "leave LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS unset or false",
    "haystack": "set HAYSTACK_CONTENT_TRACING_ENABLED=true before Haystack is imported",
    "vercel-ai": "leave recordInputs and recordOutputs of experimental_telemetry on",
    "logfire": "leave include_content of InstrumentationSettings on",
    "google-adk": "set ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true",
    "": "switch the capture of content on in the instrumentation of the assistant",
}

LOGS: Cures = {
    "": "the content of these calls comes as log records, and none came: export logs too, to the "
    "same endpoint (OTEL_LOGS_EXPORTER=otlp; in Python also "
    "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED=true), and set "
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT to capture content",
}

UNANSWERED: Cures = {
    "": "other requests have an answer: where one fails or its stream is given up, end the span "
    "with status ERROR (record_exception alone does not set it), so that it counts as failed",
}

DOCUMENTS: Cures = {
    "openinference": "on spans of kind RETRIEVER set retrieval.documents.N.document.content and "
    ".id; check that no OPENINFERENCE_HIDE_… is set",
    "openllmetry": "set TRACELOOP_TRACE_CONTENT=true, or leave it unset",
    "otel-genai": "the convention has no text in gen_ai.retrieval.documents: add it to each entry "
    'as "content", and see that content is captured',
    "langfuse": 'return the documents from the function under @observe(as_type="retriever")',
    "vercel-ai": "return the documents, with id and text, from the tool that searches",
    **{
        name: CONTENT[name]
        for name in ("haystack", "langsmith", "logfire", "google-adk", "vector-db")
    },
    "": "put id and text of each document on the span of the search",
}

RETRIEVAL: Cures = {
    "openinference": "instrument the retriever, or open a span of kind RETRIEVER around the search "
    "with retrieval.documents.N.document.id and .content",
    "openllmetry": 'instrument the vector database, or put @task(name="…Retriever") on the search '
    "and return its documents",
    "langfuse": 'put @observe(as_type="retriever") on the search and return its documents',
    "otel-genai": "open a span with gen_ai.operation.name=retrieval around the search, with "
    "gen_ai.retrieval.documents",
    "vercel-ai": "search in a tool and return the documents from it",
    "langsmith": 'put @traceable(run_type="retriever") on the search and return its documents',
    "mlflow": "put @mlflow.trace(span_type=SpanType.RETRIEVER) on the search and return its "
    "documents",
    "": "open a span around the search and put id and text of each document on it",
}

SOURCES: Cures = {
    "openinference": "set retrieval.documents.N.document.id, or source in its metadata",
    "otel-genai": "give each entry of gen_ai.retrieval.documents an id",
    "": "give each document an id, or its page or file as source in its metadata",
}

CONVERSATION: Cures = {
    "openinference": "put the request into `with using_session(session_id):` "
    "(openinference.instrumentation), in JavaScript setSession",
    "openllmetry": 'call Traceloop.set_association_properties({"session_id": …}) at its start',
    "langfuse": "put the request into `with propagate_attributes(session_id=…):`",
    "langsmith": 'give the run metadata={"session_id": …}',
    "vercel-ai": "give experimental_telemetry the metadata {sessionId: …}",
    "otel-genai": "set gen_ai.conversation.id on the outermost span",
    "mlflow": "its session does not travel over OTLP: set session.id on the outermost span",
    "": "set session.id on the outermost span of the request",
}

USER: Cures = {
    "openinference": "put the request into `with using_user(user_id):`, in JavaScript setUser",
    "openllmetry": 'call Traceloop.set_association_properties({"user_id": …}) at its start',
    "langfuse": "put the request into `with propagate_attributes(user_id=…):`",
    "langsmith": 'give the run metadata={"user_id": …}',
    "vercel-ai": "give experimental_telemetry the metadata {userId: …}",
    "": "set user.id on the outermost span of the request; a pseudonym is enough",
}

TOKENS: Cures = {
    "": "see that the instrumentation reports usage; calls that stream report none until they are "
    'asked for it: stream_options={"include_usage": true}, in LangChain stream_usage=True',
}

STREAMED_TOKENS: Cures = {
    "": "calls that stream report no usage until they are asked for it: pass stream_options="
    '{"include_usage": true}, in LangChain stream_usage=True',
}

MODEL: Cures = {
    "": "instrument the client of the model, or set gen_ai.request.model on its span",
}

COUNT_LIMIT: Cures = {
    "": "raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT (or OTEL_ATTRIBUTE_COUNT_LIMIT), 128 by default, "
    "to 2000: long lists of documents and messages push out the rest",
}

LENGTH_LIMIT: Cures = {
    "": "leave OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT and OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT unset, "
    "and no limit in the collector (transform: truncate_all, limit)",
}

PARENTS: Cures = {
    "": "send all spans of a trace, the outermost one too: no filter by span in SDK or collector, "
    "and flush the exporter when the process stops",
}

TIMES: Cures = {"": "send start and end of the outermost span"}

SAMPLING: Cures = {
    "": "a sampler ran, but its rate is not in the tracestate, so these requests stand for none "
    "but themselves: use a sampler that writes ot=th (consistent probability sampling), or none",
}

SERVICE: Cures = {"": "set OTEL_SERVICE_NAME"}


def cure_for(cures: Cures, conventions: Sequence[str]) -> str:
    """Return the cure of the first convention that has one of its own, else the general one."""
    return next((cures[name] for name in conventions if name in cures), cures[""])
