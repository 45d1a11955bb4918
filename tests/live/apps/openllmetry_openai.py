"""The OpenAI client in a workflow of two steps, traced by OpenLLMetry."""

from openai import OpenAI
from openllmetry_setup import start
from shop import INSTRUCTIONS, MODEL, QUESTION, SESSION, USER, search
from traceloop.sdk import Traceloop
from traceloop.sdk.decorators import task, workflow


@task(name="retrieve_pages")
def retrieve(question: str) -> list[dict]:
    """Return the pages found, best first."""
    return [
        {"id": page.id, "text": page.text, "source": page.source, "score": score}
        for page, score in search(question)
    ]


@workflow(name="answer_question")
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
    start()
    Traceloop.set_association_properties({"session_id": SESSION, "user_id": USER})
    print(answer(QUESTION))
