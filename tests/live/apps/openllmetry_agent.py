"""An agent of LangChain that searches by a tool, traced by OpenLLMetry."""

from openllmetry_setup import start
from shop import SESSION, USER
from traceloop.sdk import Traceloop

if __name__ == "__main__":
    start()
    Traceloop.set_association_properties({"session_id": SESSION, "user_id": USER})
    from langchain_agent import ask

    print(ask())
