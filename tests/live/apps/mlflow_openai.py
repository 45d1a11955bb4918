"""Functions traced by MLflow, and its tracing of the OpenAI client; sent over OTLP."""

import mlflow
from mlflow.entities import Document
from openai import OpenAI
from shop import INSTRUCTIONS, MODEL, QUESTION, SESSION, USER, search


@mlflow.trace(span_type="RETRIEVER")
def retrieve(question: str) -> list[Document]:
    """Return the pages found, best first."""
    return [
        Document(page_content=page.text, id=page.id, metadata={"doc_uri": page.source})
        for page, _ in search(question)
    ]


@mlflow.trace(span_type="CHAIN")
def answer(question: str) -> str:
    """Answer one question."""
    mlflow.update_current_trace(
        metadata={"mlflow.trace.session": SESSION, "mlflow.trace.user": USER}
    )
    documents = enumerate(retrieve(question), start=1)
    found = "\n".join(f"[{n}] {document.page_content}" for n, document in documents)
    reply = OpenAI().chat.completions.create(
        model=MODEL,
        messages=[
            {"role": "system", "content": INSTRUCTIONS},
            {"role": "user", "content": f"{found}\n\nQuestion: {question}"},
        ],
    )
    return reply.choices[0].message.content


if __name__ == "__main__":
    mlflow.openai.autolog()
    print(answer(QUESTION))
    mlflow.flush_trace_async_logging()
