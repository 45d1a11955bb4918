"""The OpenAI client's Responses API, traced by OpenLLMetry."""

from openai import OpenAI
from openllmetry_setup import start
from shop import INSTRUCTIONS, MODEL, QUESTION, SESSION, USER, context
from traceloop.sdk import Traceloop

if __name__ == "__main__":
    start()
    Traceloop.set_association_properties({"session_id": SESSION, "user_id": USER})
    reply = OpenAI().responses.create(
        model=MODEL, instructions=f"{INSTRUCTIONS}\n\n{context(QUESTION)}", input=QUESTION
    )
    print(reply.output_text)
