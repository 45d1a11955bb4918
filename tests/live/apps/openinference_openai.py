"""The OpenAI client alone, traced by OpenInference; documents go into the system message."""

from openai import OpenAI
from openinference.instrumentation import using_attributes
from openinference.instrumentation.openai import OpenAIInstrumentor
from shop import INSTRUCTIONS, MODEL, QUESTION, SESSION, USER, context
from tracing import provider

if __name__ == "__main__":
    OpenAIInstrumentor().instrument(tracer_provider=provider())
    with using_attributes(session_id=SESSION, user_id=USER):
        reply = OpenAI().chat.completions.create(
            model=MODEL,
            messages=[
                {"role": "system", "content": f"{INSTRUCTIONS}\n\n{context(QUESTION)}"},
                {"role": "user", "content": QUESTION},
            ],
        )
    print(reply.choices[0].message.content)
