"""The libraries that are tried, each with a tiny RAG app, and what its telemetry can tell."""

from __future__ import annotations

from typing import NamedTuple

from tests.live.apps.shop import INPUT_TOKENS, OUTPUT_TOKENS, SESSION, USER

EXPORTER = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
LANGCHAIN = ("langchain", "langchain-openai")
LLAMA_INDEX = ("llama-index-core", "llama-index-llms-openai")
ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "openinference": (
        "openinference-instrumentation-langchain",
        "openinference-instrumentation-llama-index",
        "openinference-instrumentation-openai",
        *LANGCHAIN,
        *LLAMA_INDEX,
        *EXPORTER,
    ),
    # The instrumentation of LlamaIndex asks for the package of this name.
    "openllmetry": ("traceloop-sdk", "llama-index", *LANGCHAIN),
    "pydantic-ai": ("pydantic-ai-slim[openai]", "logfire", *EXPORTER),
    "haystack": ("haystack-ai", "opentelemetry-haystack", *EXPORTER),
    "langfuse": ("langfuse", "openai", *LANGCHAIN),
    "langsmith": ("langsmith[otel]", *LANGCHAIN, *EXPORTER),
    "feedback": ("langfuse", "langsmith", "arize-phoenix-client"),
    "mlflow": ("mlflow", "openai", *LANGCHAIN, *EXPORTER),
    "otel-genai": ("opentelemetry-util-genai", "openai", "httpx", *EXPORTER),
    # The instrumentation of OpenAI does not work with the current helper.
    "otel-openai": (
        "opentelemetry-instrumentation-openai-v2",
        "opentelemetry-util-genai<1",
        "openai",
        "httpx",
        *EXPORTER,
    ),
}
"""Virtual environments by name, and the packages in them: some do not go together."""


class App(NamedTuple):
    """One app, and where its record must differ from the full one.

    `script` lies in `tests/live/apps`; `library` is the package whose telemetry is read. What a
    library cannot tell is None here, with `documents` False where it does not know of any and
    `ids` False where it leaves out their ids.
    """

    script: str
    environment: str
    library: str
    documents: bool = True
    ids: bool = True
    conversation_id: str | None = SESSION
    user_id: str | None = USER
    llm_calls: int = 1

    @property
    def input_tokens(self) -> int:
        """Tokens of all prompts."""
        return self.llm_calls * INPUT_TOKENS

    @property
    def output_tokens(self) -> int:
        """Tokens of all replies."""
        return self.llm_calls * OUTPUT_TOKENS


_OI = "openinference-instrumentation-"
_OL = "opentelemetry-instrumentation-"
APPS = (
    App("openinference_langchain", "openinference", f"{_OI}langchain"),
    App("openinference_agent", "openinference", f"{_OI}langchain", llm_calls=2),
    App("openinference_llama_index", "openinference", f"{_OI}llama-index"),
    App("openinference_chat", "openinference", f"{_OI}llama-index"),
    App("openinference_openai", "openinference", f"{_OI}openai", documents=False),
    App("openinference_responses", "openinference", f"{_OI}openai", documents=False),
    App("openllmetry_langchain", "openllmetry", f"{_OL}langchain", ids=False),
    App("openllmetry_agent", "openllmetry", f"{_OL}langchain", llm_calls=2),
    App("openllmetry_llama_index", "openllmetry", f"{_OL}llamaindex"),
    App("openllmetry_openai", "openllmetry", f"{_OL}openai"),
    App("openllmetry_responses", "openllmetry", f"{_OL}openai", documents=False),
    App("pydantic_ai_otel", "pydantic-ai", "pydantic-ai-slim", user_id=None, llm_calls=2),
    App("pydantic_ai_logfire", "pydantic-ai", "logfire", user_id=None, llm_calls=2),
    App("haystack_otel", "haystack", "haystack-ai", conversation_id=None, user_id=None),
    App(
        "haystack_agent",
        "haystack",
        "haystack-ai",
        conversation_id=None,
        user_id=None,
        llm_calls=2,
    ),
    App("langfuse_observe", "langfuse", "langfuse"),
    App("langfuse_langchain", "langfuse", "langfuse"),
    App("langsmith_langchain", "langsmith", "langsmith"),
    App("mlflow_openai", "mlflow", "mlflow", conversation_id=None, user_id=None),
    App("mlflow_langchain", "mlflow", "mlflow", conversation_id=None, user_id=None),
    App("otel_genai", "otel-genai", "opentelemetry-util-genai", user_id=None),
    App(
        "otel_openai",
        "otel-openai",
        f"{_OL}openai-v2",
        documents=False,
        conversation_id=None,
        user_id=None,
    ),
)
