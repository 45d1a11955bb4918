"""Functions observed by the Langfuse SDK, and its OpenAI client; sent to where its host is."""

from langfuse import get_client, observe, propagate_attributes
from langfuse.openai import OpenAI
from shop import INSTRUCTIONS, MODEL, QUESTION, SESSION, USER, search


@observe(as_type="retriever")
def retrieve(question: str) -> list[dict]:
    """Return the pages found, best first."""
    return [
        {"id": page.id, "text": page.text, "source": page.source, "score": score}
        for page, score in search(question)
    ]


@observe()
def answer(question: str) -> str:
    """Answer one question."""
    found = "\n".join(f"[{n}] {page['text']}" for n, page in enumerate(retrieve(question), start=1))
    reply = OpenAI().chat.completions.create(
        model=MODEL,
        messages=[
            {"role": "system", "content": INSTRUCTIONS},
            {"role": "user", "content": f"{found}\n\nQuestion: {question}"},
        ],
    )
    return reply.choices[0].message.content


if __name__ == "__main__":
    with propagate_attributes(session_id=SESSION, user_id=USER):
        print(answer(QUESTION))
    get_client().flush()
