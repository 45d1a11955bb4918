"""LangChain, traced by OpenInference."""

from langchain_chain import chain
from openinference.instrumentation import using_attributes
from openinference.instrumentation.langchain import LangChainInstrumentor
from shop import QUESTION, SESSION, USER
from tracing import provider

if __name__ == "__main__":
    LangChainInstrumentor().instrument(tracer_provider=provider())
    with using_attributes(session_id=SESSION, user_id=USER):
        print(chain().invoke(QUESTION))
