"""A tracer provider that keeps its spans in memory, for one test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once

from raftlog import tracing


class Traces:
    """The application's tracer, and the spans that have ended."""

    def __init__(self, provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
        self.tracer = provider.get_tracer("application")
        self._exporter = exporter

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, begin: str) -> list[ReadableSpan]:
        """Return the spans whose names begin with a word."""
        return [span for span in self.spans if span.name.split()[0] == begin]


@contextmanager
def traced() -> Iterator[Traces]:
    """Give the process a tracer provider until the block ends."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provided(provider):
        yield Traces(provider, exporter)


@contextmanager
def provided(provider: trace.TracerProvider) -> Iterator[None]:
    """Set the process' tracer provider, which OpenTelemetry lets an application do once."""
    trace.set_tracer_provider(provider)
    tracing._found = tracing._Found()
    try:
        yield
    finally:
        trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE = None, Once()
        tracing._found = tracing._Found()
