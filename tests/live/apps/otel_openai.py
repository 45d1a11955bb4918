"""The OpenAI client, traced by OpenTelemetry's own instrumentation of it, content on the spans."""

from openai import OpenAI
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
from shop import INSTRUCTIONS, MODEL, QUESTION, context
from tracing import provider

if __name__ == "__main__":
    OpenAIInstrumentor().instrument(tracer_provider=provider())
    reply = OpenAI().chat.completions.create(
        model=MODEL,
        messages=[
            {"role": "system", "content": f"{INSTRUCTIONS}\n\n{context(QUESTION)}"},
            {"role": "user", "content": QUESTION},
        ],
    )
    print(reply.choices[0].message.content)
