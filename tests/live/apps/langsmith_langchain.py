"""A chain of LangChain, traced by LangSmith over OpenTelemetry alone."""

from langchain_chain import chain
from langchain_core.tracers.langchain import wait_for_all_tracers
from shop import QUESTION, SESSION, USER
from tracing import provider

if __name__ == "__main__":
    provider()
    metadata = {"session_id": SESSION, "user_id": USER}
    print(chain().invoke(QUESTION, config={"metadata": metadata}))
    wait_for_all_tracers()
