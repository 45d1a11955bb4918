"""A chain of LangChain, traced by the callback of the Langfuse SDK."""

from langchain_chain import chain
from langfuse import get_client
from langfuse.langchain import CallbackHandler
from shop import QUESTION, SESSION, USER

if __name__ == "__main__":
    metadata = {"langfuse_session_id": SESSION, "langfuse_user_id": USER}
    config = {"callbacks": [CallbackHandler()], "metadata": metadata}
    print(chain().invoke(QUESTION, config=config))
    get_client().flush()
