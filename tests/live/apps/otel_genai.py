"""An assistant that reports itself through OpenTelemetry's own helper for GenAI."""

from openai import OpenAI
from opentelemetry.util.genai.handler import TelemetryHandler
from opentelemetry.util.genai.types import InputMessage, OutputMessage, TextPart
from shop import INSTRUCTIONS, MODEL, QUESTION, SESSION, context, search
from tracing import provider


def said(role: str, text: str) -> InputMessage:
    """Return one message of text."""
    return InputMessage(role=role, parts=[TextPart(text)])


def answer(handler: TelemetryHandler, question: str) -> str:
    """Answer one question."""
    with handler.retrieval(data_source_id="shop") as step:
        step.query_text = question
        step.documents = [
            {"id": page.id, "score": score, "content": page.text, "source": page.source}
            for page, score in search(question)
        ]
    system, user = f"{INSTRUCTIONS}\n\n{context(question)}", question
    with handler.inference("openai", request_model=MODEL, conversation_id=SESSION) as step:
        reply = OpenAI().chat.completions.create(
            model=MODEL,
            messages=[{"role": "system", "content": system}, {"role": "user", "content": user}],
        )
        text = reply.choices[0].message.content
        step.input_messages = [said("system", system), said("user", user)]
        step.output_messages = [OutputMessage(role="assistant", parts=[TextPart(text)])]
        step.response_model_name = reply.model
        step.response_id = reply.id
        step.input_tokens = reply.usage.prompt_tokens
        step.output_tokens = reply.usage.completion_tokens
    return text


if __name__ == "__main__":
    handler = TelemetryHandler(tracer_provider=provider())
    with handler.workflow("shop"):
        print(answer(handler, QUESTION))
