"""A query engine of LlamaIndex, traced by OpenLLMetry."""

from openllmetry_setup import start
from shop import MODEL, QUESTION, SESSION, USER
from traceloop.sdk import Traceloop

if __name__ == "__main__":
    start()
    Traceloop.set_association_properties({"session_id": SESSION, "user_id": USER})
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.llms.openai import OpenAI
    from llama_index_retriever import ShopRetriever

    engine = RetrieverQueryEngine.from_args(ShopRetriever(), llm=OpenAI(model=MODEL))
    print(engine.query(QUESTION))
