"""A chat engine of LlamaIndex in its second turn, streaming, traced by OpenInference."""

from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai import OpenAI
from llama_index_retriever import ShopRetriever
from openinference.instrumentation import using_attributes
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from shop import MODEL, QUESTION, SESSION, USER
from tracing import provider

if __name__ == "__main__":
    LlamaIndexInstrumentor().instrument(tracer_provider=provider())
    engine = ContextChatEngine.from_defaults(ShopRetriever(), llm=OpenAI(model=MODEL))
    history = [
        ChatMessage(role="user", content="Do gift cards expire?"),
        ChatMessage(role="assistant", content="Gift cards never expire [1]."),
    ]
    with using_attributes(session_id=SESSION, user_id=USER):
        reply = engine.stream_chat(QUESTION, chat_history=history)
        print("".join(reply.response_gen))
