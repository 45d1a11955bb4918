"""An agent of pydantic-ai."""

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from shop import INSTRUCTIONS, MODEL, search


def agent() -> Agent:
    """Return the assistant, which searches by a tool."""
    made = Agent(OpenAIChatModel(MODEL), instructions=INSTRUCTIONS, name="shop_agent")

    @made.tool_plain
    def search_pages(query: str) -> list[dict]:
        """Search the pages of the shop."""
        return [
            {"id": page.id, "text": page.text, "source": page.source, "score": score}
            for page, score in search(query)
        ]

    return made
