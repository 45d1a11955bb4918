"""An agent of LangChain."""

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from shop import INSTRUCTIONS, MODEL, QUESTION, search


@tool
def search_pages(query: str) -> list[dict]:
    """Search the pages of the shop."""
    return [
        {"id": page.id, "text": page.text, "source": page.source, "score": score}
        for page, score in search(query)
    ]


def ask(**options: object) -> str:
    """Ask the assistant, which searches by a tool."""
    agent = create_agent(ChatOpenAI(model=MODEL), [search_pages], system_prompt=INSTRUCTIONS)
    result = agent.invoke({"messages": [("user", QUESTION)]}, **options)
    return result["messages"][-1].content
