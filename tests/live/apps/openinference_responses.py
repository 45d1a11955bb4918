"""The OpenAI client's Responses API, traced by OpenInference."""

from openai import OpenAI
from openinference.instrumentation import using_attributes
from openinference.instrumentation.openai import OpenAIInstrumentor
from shop import INSTRUCTIONS, MODEL, QUESTION, SESSION, USER, context
from tracing import provider

if __name__ == "__main__":
    OpenAIInstrumentor().instrument(tracer_provider=provider())
    with using_attributes(session_id=SESSION, user_id=USER):
        reply = OpenAI().responses.create(
            model=MODEL,
            instructions=f"{INSTRUCTIONS}\n\n{context(QUESTION)}",
            input=QUESTION,
        )
    print(reply.output_text)
