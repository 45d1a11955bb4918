"""LangChain, traced by OpenLLMetry."""

from openllmetry_setup import start
from shop import QUESTION, SESSION, USER
from traceloop.sdk import Traceloop

if __name__ == "__main__":
    start()
    Traceloop.set_association_properties({"session_id": SESSION, "user_id": USER})
    from langchain_chain import chain

    print(chain().invoke(QUESTION))
