"""Follow records from the program that sends them to the program that processes them, without a collector.

    pip install 'raftlog[otel]' opentelemetry-sdk
    raftlog dev up --detach
    raftlog topics create orders --partitions 3
    python examples/traces.py orders --spans spans.jsonl

The application sets a tracer provider; raftlog does the rest. Here the spans go to a file, one JSON object a line. A
real application sets an exporter of its own, such as OTLP's.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TextIO

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

from raftlog import Consumer, Producer, RaftlogError, Record, tracing

ORDERS = 5


def write_spans_to(file: TextIO) -> TracerProvider:
    """Set the tracer provider of this process. Before any client is made, so that its first batch has a span, too."""

    def as_line(span: ReadableSpan) -> str:
        return f"{span.to_json(indent=None)}\n"

    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=file, formatter=as_line)))
    trace.set_tracer_provider(provider)
    return provider


async def sell(bootstrap: str, topic: str) -> None:
    """Send orders, each in a span of its own, whose context the record carries."""
    tracer = trace.get_tracer("shop")
    async with Producer(bootstrap) as producer:
        for number in range(ORDERS):
            with tracer.start_as_current_span("order", attributes={"order.id": number}):
                await producer.send(topic, b"order %d" % number)


async def deliver(bootstrap: str, topic: str, count: int) -> None:
    """Process records, each in a span that is linked to the span in which the record was sent."""
    async with Consumer(bootstrap, topic, start="earliest") as consumer:
        async for record in consumer:
            with tracing.process(record):
                pack(record)
            count -= 1
            if not count:
                break


def pack(record: Record) -> None:
    """Do what must be done for a record; spans that are made here are below the record's."""
    with trace.get_tracer("shop").start_as_current_span("pack"):
        print(f"{record.topic}-{record.partition} @{record.offset}: {record.value!r}", flush=True)


async def run(bootstrap: str, topic: str) -> None:
    """Sell and deliver."""
    await sell(bootstrap, topic)
    await deliver(bootstrap, topic, ORDERS)


def main() -> None:
    """Run from a command line."""
    parser = argparse.ArgumentParser(description="Write the spans of records that are sent and processed to a file.")
    parser.add_argument("topic")
    parser.add_argument("--bootstrap", default="http://127.0.0.1:9400")
    parser.add_argument("--spans", type=Path, default=Path("spans.jsonl"))
    asked = parser.parse_args()
    with asked.spans.open("w") as file:
        provider = write_spans_to(file)
        try:
            asyncio.run(run(asked.bootstrap, asked.topic))
        except RaftlogError as error:
            raise SystemExit(f"{error.code}: {error}") from error
        finally:
            provider.shutdown()  # Writes the spans that have not been written yet.


if __name__ == "__main__":
    main()
