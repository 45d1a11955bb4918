"""The SDK of OpenLLMetry, sending every span at once."""

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from traceloop.sdk import Traceloop


def start() -> None:
    """Start tracing."""
    Traceloop.init(app_name="shop", exporter=OTLPSpanExporter(), disable_batch=True)
