"""An agent of Haystack that searches by a tool, traced by its own OpenTelemetry tracer."""

from typing import Annotated

from haystack import tracing
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import tool
from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer
from shop import INSTRUCTIONS, MODEL, QUESTION, search
from tracing import provider


@tool
def search_pages(query: Annotated[str, "what to look for"]) -> list[dict]:
    """Search the pages of the shop."""
    return [
        {"id": page.id, "content": page.text, "source": page.source, "score": score}
        for page, score in search(query)
    ]


if __name__ == "__main__":
    tracing.enable_tracing(OpenTelemetryTracer(provider().get_tracer("shop")))
    agent = Agent(
        chat_generator=OpenAIChatGenerator(model=MODEL),
        tools=[search_pages],
        system_prompt=INSTRUCTIONS,
    )
    print(agent.run(messages=[ChatMessage.from_user(QUESTION)])["last_message"].text)
