"""Spans of Spark's tasks, below the span of the driver that the option `traceparent` names.

Executors make spans if their Python workers have a tracer provider. Without one, the option itself is what requests and
records carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from raftlog import tracing
from raftlog.traceparent import parse_traceparent


@dataclass
class TaskSpan:
    """The span of a task, or what stands for it."""

    traceparent: str
    """What requests and records carry; "": nothing."""
    note_records: Callable[[int], object] = field(default=lambda _: None)
    """Sets the number of records."""


def parse_option(text: str) -> str:
    """Read the option `traceparent`; an empty one is as good as none, since the driver may have no span.

    Raises:
        ValueError: it is no trace context.
    """
    if text.strip() and parse_traceparent(text.strip().encode()) is None:
        raise ValueError("expected a trace context as of W3C, 00-TRACE-SPAN-FLAGS in hexadecimal digits")
    return text.strip()


@contextmanager
def task_span(kind: str, name: str, topics: Iterable[str], traceparent: str) -> Iterator[TaskSpan]:
    """Run a task in its span.

    Args:
        kind: the type of the operation, `send` or `receive`.
        traceparent: the option.
    """
    found, topics = tracing.tracer(), set(topics)
    if found is None:
        yield TaskSpan(traceparent)
        return
    span = found.start_span(
        tracing.span_name(name, topics),
        context=tracing.remote_parent(traceparent) or tracing.under(None),
        kind=tracing.kind("CLIENT"),
        attributes=tracing.attributes(kind, name, topics),
    )
    try:
        yield TaskSpan(
            tracing.traceparent_of(span), lambda count: span.set_attribute("messaging.batch.message_count", count)
        )
    except GeneratorExit:
        raise  # Spark needs no more rows.
    except BaseException as error:
        tracing.fail(span, error)
        raise
    finally:
        span.end()
