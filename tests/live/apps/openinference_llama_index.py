"""A query engine of LlamaIndex, traced by OpenInference."""

from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.llms.openai import OpenAI
from llama_index_retriever import ShopRetriever
from openinference.instrumentation import using_attributes
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from shop import MODEL, QUESTION, SESSION, USER
from tracing import provider

if __name__ == "__main__":
    LlamaIndexInstrumentor().instrument(tracer_provider=provider())
    engine = RetrieverQueryEngine.from_args(ShopRetriever(), llm=OpenAI(model=MODEL))
    with using_attributes(session_id=SESSION, user_id=USER):
        print(engine.query(QUESTION))
