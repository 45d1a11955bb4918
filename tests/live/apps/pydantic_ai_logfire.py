"""An agent of pydantic-ai, traced by Logfire, which sends to any OTLP endpoint as well."""

import logfire
from shop import QUESTION, SESSION
from shop_agent import agent

if __name__ == "__main__":
    logfire.configure(send_to_logfire=False, console=False, service_name="shop")
    logfire.instrument_pydantic_ai()
    print(agent().run_sync(QUESTION, conversation_id=SESSION).output)
    logfire.shutdown()
