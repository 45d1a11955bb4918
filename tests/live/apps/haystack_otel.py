"""A pipeline of Haystack, traced by its own OpenTelemetry tracer."""

from haystack import Document, Pipeline, tracing
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer
from shop import INSTRUCTIONS, MODEL, PAGES, QUESTION
from tracing import provider

TEMPLATE = """{% for d in documents %}[{{ loop.index }}] {{ d.content }}
{% endfor %}
Question: {{ question }}"""


def pipeline() -> Pipeline:
    """Return the assistant."""
    store = InMemoryDocumentStore()
    store.write_documents(
        [Document(id=p.id, content=p.text, meta={"source": p.source}) for p in PAGES]
    )
    made = Pipeline()
    made.add_component("retriever", InMemoryBM25Retriever(store, top_k=2))
    made.add_component(
        "prompt",
        ChatPromptBuilder(
            [ChatMessage.from_system(INSTRUCTIONS), ChatMessage.from_user(TEMPLATE)],
            required_variables="*",
        ),
    )
    made.add_component("llm", OpenAIChatGenerator(model=MODEL))
    made.connect("retriever.documents", "prompt.documents")
    made.connect("prompt.prompt", "llm.messages")
    return made


if __name__ == "__main__":
    tracing.enable_tracing(OpenTelemetryTracer(provider().get_tracer("shop")))
    result = pipeline().run({"retriever": {"query": QUESTION}, "prompt": {"question": QUESTION}})
    print(result["llm"]["replies"][0].text)
