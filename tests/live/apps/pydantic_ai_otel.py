"""An agent of pydantic-ai that searches by a tool, traced by its own instrumentation."""

from pydantic_ai import Agent, InstrumentationSettings
from shop import QUESTION, SESSION
from shop_agent import agent
from tracing import provider

if __name__ == "__main__":
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider()))
    print(agent().run_sync(QUESTION, conversation_id=SESSION).output)
