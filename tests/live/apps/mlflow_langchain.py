"""A chain of LangChain, traced by MLflow."""

import mlflow
from langchain_chain import chain
from shop import QUESTION

if __name__ == "__main__":
    mlflow.langchain.autolog()
    print(chain().invoke(QUESTION))
    mlflow.flush_trace_async_logging()
