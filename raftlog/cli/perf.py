"""`raftlog perf`: measures a cluster's throughput and latency from a client."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import click

from raftlog.cli.connecting import security_in_use
from raftlog.cli.interruptions import Interruption, carry_out
from raftlog.cli.perf_loads import Latency, Load, Reading, Throughput, Writing, random_values
from raftlog.cli.perf_report import measured, report
from raftlog.cli.producer_options import acks_option, compression_option
from raftlog.cli.progress import progress
from raftlog.cli.remote import admin, bootstrap_option, complete_topics, require_topic
from raftlog.cli.shared import FiniteRange, describe_error, run
from raftlog.client import Consumer, Producer
from raftlog.record.model import Compression
from raftlog.wire.data import AcksText

F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED_FLUSH_S = 10.0
"""How long an interrupted run waits for the outcomes of sent records."""
MOST_WARMUP = 100_000
_LARGEST = 64 << 20

_records = click.option("--records", type=click.IntRange(min=1), default=1_000_000, show_default=True)


def _topic_options(function: F) -> F:
    """Add `--topic`, and the options that create it."""
    for option in (
        click.option("--replication-factor", type=click.IntRange(min=1), help="Of the topic that --create makes."),
        click.option("--partitions", type=click.IntRange(min=1), help="Of the topic that --create makes."),
        click.option("--create", is_flag=True, help="Create the topic first; it must not exist."),
        click.option("--topic", required=True, shell_complete=complete_topics),
    ):
        function = option(function)
    return function


def _load_options(function: F) -> F:
    """Add the options of a load."""
    size, count = click.IntRange(min=0, max=_LARGEST), click.IntRange(min=0)
    for option in (
        compression_option,
        acks_option,
        click.option("--batch-bytes", type=click.IntRange(min=1), default=256 << 10, show_default=True),
        click.option("--record-size", type=size, default=100, show_default=True, help="Bytes of random letters."),
        click.option(
            "--warmup", type=count, help="Records sent before the clock starts. Default: a tenth, at most 100,000."
        ),
    ):
        function = option(function)
    return function


@click.group("perf")
def command() -> None:
    """Measure throughput and latency.

    The last line of standard output is one JSON object: records, seconds, records_per_s, mb_per_s (millions of bytes of
    keys and values), p50_ms, p95_ms, p99_ms, p999_ms, max_ms, and how it was measured.
    """


@command.command("produce")
@_topic_options
@_records
@_load_options
@click.option("--linger-ms", type=click.IntRange(min=0), default=5, show_default=True)
@click.option("--chunk", type=click.IntRange(min=1), default=10_000, show_default=True, help="Values of one send_many.")
@click.option("--calls", type=click.IntRange(min=1), default=4, show_default=True, help="How many of them at once.")
@bootstrap_option
def produce(bootstrap: list[str], chunk: int, calls: int, **load: Any) -> None:
    """Write as fast as one producer can, by `Producer.send_many`.

    Records count once they are acknowledged. Percentiles are of calls: from the call of send_many until its last record
    is acknowledged. For the latency of single records there is `raftlog perf latency`.
    """
    plan = _WritePlan(**load)
    how = _How(f"calls of {chunk:,} records", {"chunk": chunk, "calls": calls})
    sys.exit(run(_write(bootstrap, plan, how, lambda *to: Throughput(*to, chunk=chunk, calls=calls))))


@command.command("latency")
@_topic_options
@click.option("--records", type=click.IntRange(min=1), default=10_000, show_default=True)
@_load_options
@click.option("--linger-ms", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--rate", type=FiniteRange(min=0, min_open=True), help="Records a second. Default: one at a time.")
@bootstrap_option
def latency(bootstrap: list[str], rate: float | None, **load: Any) -> None:
    """Send single records, and time each from the call until it is acknowledged.

    Without --rate, one is sent when the one before is acknowledged. With --rate, each is sent when it is due, whatever
    became of those before, and its clock starts when it was due: a stall counts for all that it held up.
    """
    plan = _WritePlan(**load)
    how = _How("a record" if rate is None else "a record, since it was due", {"rate": rate})
    sys.exit(run(_write(bootstrap, plan, how, lambda *to: Latency(*to, rate=rate))))


@dataclass(frozen=True, slots=True, kw_only=True)
class _WritePlan:
    """The options of a run that writes."""

    topic: str
    create: bool
    partitions: int | None
    replication_factor: int | None
    records: int
    record_size: int
    warmup: int | None
    acks: AcksText
    compression: Compression | None
    batch_bytes: int
    linger_ms: int


class _How(NamedTuple):
    """The operation that the percentiles measure, and the settings of one kind of run."""

    timed: str
    settings: dict[str, Any]


async def _write(
    bootstrap: list[str], plan: _WritePlan, how: _How, make: Callable[[Producer, str, list[bytes]], Writing]
) -> int:
    await _prepare_topic(bootstrap, plan)
    producer = Producer(
        bootstrap,
        acks=plan.acks,
        compression=plan.compression,
        batch_bytes=plan.batch_bytes,
        linger_ms=plan.linger_ms,
        security=security_in_use(),
    )
    load = make(producer, plan.topic, random_values(plan.record_size, plan.records))

    async def work() -> None:
        await load.run(min(plan.records // 10, MOST_WARMUP) if plan.warmup is None else plan.warmup)
        if not load.stopping.is_set() and load.error is None:
            load.forget()
            await load.run(plan.records)

    try:
        interruption = await _carry_out(load, work(), "acknowledged", plan.records)
    finally:
        await producer.close(flush=False)
    figures = {
        **measured(load, value_bytes=load.records * plan.record_size),
        "failed": load.failed,
        "unknown": load.unknown,
        "record_size": plan.record_size,
        "acks": plan.acks,
        "compression": plan.compression or "none",
        "linger_ms": plan.linger_ms,
        **how.settings,
    }
    done = "sent (acks=0: not acknowledged)" if plan.acks == "0" else "acknowledged"
    report(figures, done=done, timed=how.timed)
    return _ending(interruption, load)


@command.command("consume")
@click.option("--topic", required=True, shell_complete=complete_topics)
@click.option("--records", type=click.IntRange(min=1), help="Default: all that are there.")
@click.option("--arrow", is_flag=True, help="Read tables (`fetch_arrow`) instead of objects (`fetch`).")
@click.option(
    "--warmup", type=click.IntRange(min=0), default=1, show_default=True, help="Read before the clock starts."
)
@click.option(
    "--timeout",
    type=FiniteRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop after this long without records.",
)
@bootstrap_option
def consume(topic: str, records: int | None, arrow: bool, warmup: int, timeout: float, bootstrap: list[str]) -> None:
    """Read a topic from its beginning, as fast as one consumer can.

    Percentiles are of calls of `fetch` (or `fetch_arrow`). Warming up ends with the call that reaches --warmup.
    """
    sys.exit(run(_consume(bootstrap, topic, records, arrow=arrow, warmup=warmup, timeout_s=timeout)))


async def _consume(
    bootstrap: list[str], topic: str, records: int | None, *, arrow: bool, warmup: int, timeout_s: float
) -> int:
    await require_topic(bootstrap, topic)
    async with Consumer(bootstrap, topic, start="earliest", security=security_in_use()) as consumer:
        load = Reading(consumer, arrow=arrow)
        complete = False

        async def work() -> None:
            nonlocal complete
            if await load.run(warmup, timeout_s=timeout_s):
                load.forget()
                complete = await load.run(records, timeout_s=timeout_s)

        interruption = await _carry_out(load, work(), "read", records)
    figures = {**measured(load, value_bytes=load.value_bytes), "arrow": arrow}
    report(figures, done="read", timed=f"calls of {'fetch_arrow' if arrow else 'fetch'}")
    if not complete and not interruption.happened:
        click.echo(f"Error: no more records came within {timeout_s:g} s", err=True)
    elif complete and not load.records:
        click.echo("Error: the warmup read every record; try --warmup 0", err=True)
    return 0 if complete and load.records else 1


async def _carry_out(load: Load, work: Coroutine[Any, Any, None], what: str, total: int | None) -> Interruption:
    with progress(what, lambda: load.records, total=total):
        return await carry_out(work, load.stopping, grace_s=INTERRUPTED_FLUSH_S)


async def _prepare_topic(bootstrap: list[str], plan: _WritePlan) -> None:
    if not plan.create:
        if (plan.partitions, plan.replication_factor) != (None, None):
            raise click.UsageError("--partitions and --replication-factor are for --create")
        await require_topic(bootstrap, plan.topic)
        return
    async with admin(bootstrap) as client:
        await client.create_topic(plan.topic, partitions=plan.partitions, replication_factor=plan.replication_factor)


def _ending(interruption: Interruption, load: Writing) -> int:
    """Print what failed; return the exit code."""
    if load.unknown:
        click.echo(f"{load.unknown:,} more were sent, and may be in the log", err=True)
    if interruption.happened:
        click.echo("interrupted: the figures cover the records acknowledged until then", err=True)
    elif load.error is not None:
        click.echo(f"Error: {describe_error(load.error)}", err=True)
    return 1 if interruption.happened or load.error is not None or load.unknown else 0
