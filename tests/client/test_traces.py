"""Traces: which span a record leads to, spans that end whatever happens, and forged headers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind
from span_support import Traces, provided, traced

import raftlog.blocking
from raftlog import Admin, Consumer, Producer, Record, tracing
from raftlog.cli.launcher import Launcher
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import RaftlogError
from raftlog.traceparent import parse_traceparent
from raftlog.wire import media, paths
from raftlog.wire.codec import encode_json
from raftlog.wire.metadata import BrokerInfo, ClientMetadata, PartitionInfo, TopicInfo

FOREIGN = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def traces() -> Iterator[Traces]:
    with traced() as found:
        yield found


async def create(url: str, topic: str, partitions: int = 1) -> None:
    async with Admin(url) as admin:
        await admin.create_topic(topic, partitions=partitions, replication_factor=1)


async def read(url: str, topic: str, count: int) -> list[Record]:
    records: list[Record] = []
    async with asyncio.timeout(30), Consumer(url, topic, start="earliest") as consumer:
        while len(records) < count:
            records += await consumer.fetch()
    return records


def span_of(record: Record) -> tuple[int, int] | None:
    """Return trace and span of a record's header."""
    (value,) = [value for name, value in record.headers if name == "traceparent"] or [None]
    parent = parse_traceparent(value)
    return None if parent is None else (parent.trace_id, parent.span_id)


def own(span: ReadableSpan | trace.Span) -> tuple[int, int]:
    context = span.get_span_context()
    return context.trace_id, context.span_id


def record(*headers: tuple[str, bytes | None], topic: str = "t") -> Record:
    return Record(topic, 0, 7, 0, None, b"", headers)


@pytest.mark.cluster
async def test_records_lead_to_the_span_in_which_they_were_sent(
    shared_cluster: LocalCluster, topic_name: str, traces: Traces
):
    url = shared_cluster.bootstrap
    await create(url, topic_name)
    with traces.tracer.start_as_current_span("order") as order:
        async with Producer(url) as producer:
            await producer.send(topic_name, b"1", key=b"k", headers={"own": b"x"})
            await producer.send_nowait(topic_name, b"2")
            await producer.send_many(topic_name, [b"3", b"4"])
            with trace.use_span(trace.INVALID_SPAN):
                await producer.send(topic_name, b"5")
            await producer.send(topic_name, b"6", headers=[("traceparent", FOREIGN)])
    records = await read(url, topic_name, 6)
    assert [span_of(each) for each in records[:4]] == [own(order)] * 4
    assert records[0].headers[0] == ("own", b"x")
    assert records[4].headers == ()
    assert records[5].headers == (("traceparent", FOREIGN),)

    sends = traces.named("send")
    assert {span.name for span in sends} == {f"send {topic_name}"}
    parents = [span.parent.span_id if span.parent else None for span in sends]
    assert parents == [order.get_span_context().span_id] * 3 + [None, 0x00F067AA0BA902B7]
    assert sends[0].kind is SpanKind.CLIENT
    assert (
        dict(sends[0].attributes or {}).items()
        >= {
            "messaging.system": "raftlog",
            "messaging.operation.type": "send",
            "messaging.operation.name": "send",
            "messaging.destination.name": topic_name,
            "messaging.destination.partition.id": "0",
            "messaging.batch.message_count": 1,
        }.items()
    )
    fetches = traces.named("fetch")
    assert sum((span.attributes or {})["messaging.batch.message_count"] for span in fetches) == 6  # type: ignore[misc]
    assert {(span.kind, span.parent) for span in fetches} == {(SpanKind.CLIENT, None)}

    with tracing.process(records[0], group_id="g") as span:
        assert trace.get_current_span() is span
    (processed,) = traces.named("process")
    assert (processed.name, processed.kind, processed.parent) == (f"process {topic_name}", SpanKind.CONSUMER, None)
    assert [own_of(link) for link in processed.links] == [own(order)]
    assert (processed.attributes or {})["messaging.consumer.group.name"] == "g"


def own_of(link: trace.Link) -> tuple[int, int]:
    return link.context.trace_id, link.context.span_id


@pytest.mark.cluster
async def test_a_batch_of_several_spans_is_sent_below_the_first_with_links_to_the_others(
    shared_cluster: LocalCluster, topic_name: str, traces: Traces
):
    url = shared_cluster.bootstrap
    await create(url, topic_name)
    owners = []
    async with Producer(url, linger_ms=300) as producer:
        await producer.send(topic_name, b"first")
        for number in range(100):
            with traces.tracer.start_as_current_span(f"request {number}") as span:
                owners.append(own(span))
                delivery = producer.send_nowait(topic_name, b"%d" % number)
        await delivery
    send = traces.named("send")[-1]
    assert send.parent is not None
    assert (send.parent.trace_id, send.parent.span_id) == owners[0]
    assert [own_of(link) for link in send.links] == owners[1 : tracing.MAX_LINKS]
    assert [span_of(each) for each in (await read(url, topic_name, 101))[1:]] == owners


@pytest.mark.cluster
async def test_a_provider_that_is_set_later_counts_from_the_next_batch_on(
    shared_cluster: LocalCluster, topic_name: str
):
    url = shared_cluster.bootstrap
    await create(url, topic_name)
    async with Producer(url) as producer:
        await producer.send_nowait(topic_name, b"before")
        await producer.send_nowait(topic_name, b"before, on the fast path")
        assert producer._appender.fast_paths
        with traced() as traces, traces.tracer.start_as_current_span("order") as order:
            await producer.send_nowait(topic_name, b"finds it")
            await producer.send_nowait(topic_name, b"after")
            await producer.send_nowait(topic_name, b"after")
            assert not producer._appender.fast_paths
    records = await read(url, topic_name, 5)
    assert [span_of(each) for each in records] == [None, None, None, own(order), own(order)]


@pytest.mark.cluster
def test_a_blocking_producers_records_lead_to_the_spans_of_their_threads(
    shared_cluster: LocalCluster, topic_name: str, traces: Traces
):
    url, owners = shared_cluster.bootstrap, dict[bytes, tuple[int, int]]()
    asyncio.run(create(url, topic_name))

    def work(producer: raftlog.blocking.Producer, name: str) -> None:
        for number in range(30):
            with traces.tracer.start_as_current_span(name) as span:
                values = [f"{name} {number} {each}".encode() for each in range(4)]
                owners.update(dict.fromkeys(values, own(span)))
                producer.send_nowait(topic_name, values[0])
                producer.send_many(topic_name, values[1:3])
                producer.send(topic_name, values[3])
            producer.send_nowait(topic_name, b"no span")

    with raftlog.blocking.Producer(url) as producer:
        threads = [threading.Thread(target=work, args=(producer, f"thread {number}")) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for each in asyncio.run(read(url, topic_name, 450)):
        assert span_of(each) == owners.get(each.value or b""), each


HOSTILE: list[bytes | None] = [
    None, b"", b"\xff\xfe\x00", FOREIGN[:-1], FOREIGN + b"x", b"x" * 1_000_000,
    b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01",
    FOREIGN.upper(), "é".encode() * 55, b"\n" * 55,
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE)
def test_a_header_that_is_no_context_is_no_link(value: bytes | None, traces: Traces):
    with tracing.process(record(("traceparent", value), ("tracestate", b"\xff=,,,;" * 50))):
        pass
    (span,) = traces.named("process")
    assert list(span.links) == []


@pytest.mark.parametrize("state", [None, b"", b"\xff", b"=,=", b"a" * 257, b"a=b," * 60, b"A=b", b"a=\x00"])
def test_a_state_that_is_not_valid_leaves_the_context(state: bytes | None, traces: Traces):
    with tracing.process(record(("traceparent", FOREIGN), ("tracestate", state)), as_child=True):
        pass
    (span,) = traces.named("process")
    assert [own_of(link) for link in span.links] == [(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7)]
    assert span.parent is not None
    assert span.parent.span_id == 0x00F067AA0BA902B7


def test_ten_thousand_different_contexts_are_bounded(traces: Traces):
    many = [record(("traceparent", b"00-%032x-%016x-01" % (number, number))) for number in range(1, 10_001)]
    wrong = [record(("traceparent", b"nonsense %d" % number)) for number in range(10_000)]
    for records in (many, wrong, [*wrong, *many], []):
        with tracing.process(records):
            pass
    assert [len(span.links) for span in traces.named("process")] == [tracing.MAX_LINKS, 0, 0, 0]


@pytest.mark.cluster
async def test_a_consumer_reads_whatever_headers_say(shared_cluster: LocalCluster, topic_name: str, traces: Traces):
    url = shared_cluster.bootstrap
    await create(url, topic_name)
    async with Producer(url) as producer:
        for value in HOSTILE:
            await producer.send(topic_name, b"x", headers=[("traceparent", value)])
    for each in await read(url, topic_name, len(HOSTILE)):
        with tracing.process(each):
            pass
    assert len(traces.named("process")) == len(HOSTILE)


def test_a_failure_of_the_application_is_in_its_span(traces: Traces):
    with pytest.raises(ValueError, match="bad"), tracing.process(record()):
        raise ValueError("bad")
    (span,) = traces.named("process")
    assert ((span.attributes or {})["error.type"], span.status.description) == ("ValueError", "bad")


def test_without_a_provider_nothing_happens():
    with tracing.process(record(("traceparent", FOREIGN))) as span:
        assert span is None
    assert tracing.RecordMarker().headers() == ()


def test_traces_can_be_turned_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAFTLOG_TRACES", "off")
    with traced():
        assert tracing.tracer() is None


def test_what_is_not_sampled_is_passed_on_as_such():
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    with provided(provider), provider.get_tracer("x").start_as_current_span("x"):
        ((_, value),) = tracing.RecordMarker().headers()
        assert value is not None
        assert int(value[-2:], 16) & trace.TraceFlags.SAMPLED == 0


@pytest.fixture
async def silent() -> AsyncIterator[str]:
    """A broker that takes batches and never answers."""
    app, url = web.Application(), ""

    async def metadata(_: web.Request) -> web.Response:
        partition = PartitionInfo(partition=0, leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
        topic = TopicInfo(topic="t", topic_id="0" * 32, partitions=(partition,))
        brokers = (BrokerInfo(broker_id=1, url=url),)
        answer = ClientMetadata(cluster_id="c", metadata_offset=1, brokers=brokers, topics=(topic,))
        return web.Response(body=encode_json(answer), content_type=media.JSON)

    async def never(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def producer_id(_: web.Request) -> web.Response:
        return web.json_response({"producer_id": 7, "producer_epoch": 0})

    app.router.add_get(paths.METADATA, metadata)
    app.router.add_post(paths.PRODUCE, never)
    app.router.add_post(paths.PRODUCERS, producer_id)
    async with TestServer(app) as server:
        url = str(server.make_url("/")).rstrip("/")
        yield url


class Begun(SpanProcessor):
    """Counts the spans that have begun and not ended."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: trace.Span, parent_context: object = None) -> None:
        self.open.add(span.get_span_context().span_id)

    def on_end(self, span: ReadableSpan) -> None:
        self.open.discard(span.get_span_context().span_id)
        self.ended.append(span)


async def test_spans_end_when_a_send_is_cancelled_and_the_producer_closed(silent: str):
    begun, provider = Begun(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(begun)
    with provided(provider):
        producer = Producer(silent)
        sending = asyncio.create_task(producer.send("t", b"x"))
        async with asyncio.timeout(10):
            while not begun.open:
                await asyncio.sleep(0.01)
        sending.cancel()
        await producer.close(flush=False, timeout_ms=0)
    assert begun.open == set()
    assert [(span.attributes or {})["error.type"] for span in begun.ended] == ["cancelled"]


async def test_an_outage_leaves_a_span_of_each_attempt_and_no_other(silent: str):
    begun, provider = Begun(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(begun)
    with provided(provider):
        async with Producer(silent, request_timeout_ms=100, delivery_timeout_ms=600) as producer:
            with pytest.raises(RaftlogError):
                await producer.send("t", b"x")
    assert begun.open == set()
    assert len(begun.ended) == producer.metrics().requests >= 2
    assert {(span.attributes or {})["error.type"] for span in begun.ended} == {"REQUEST_TIMED_OUT"}


class Broken(SpanProcessor):
    def on_start(self, span: trace.Span, parent_context: object = None) -> None:
        raise RuntimeError("a bug of the application")


@pytest.mark.cluster
async def test_a_provider_that_fails_loses_spans_and_no_records(
    shared_cluster: LocalCluster, topic_name: str, caplog: pytest.LogCaptureFixture
):
    url, provider = shared_cluster.bootstrap, TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Broken())
    await create(url, topic_name)
    with provided(provider):
        async with Producer(url) as producer:
            for _ in range(3):
                await producer.send(topic_name, b"x")
        assert len(await read(url, topic_name, 3)) == 3
    assert [line.getMessage() for line in caplog.records if line.name == "raftlog.tracing"] == [
        "spans are lost: the tracer provider fails"
    ]


ABSENT = """
import asyncio, sys
sys.modules["opentelemetry"] = None
import raftlog, raftlog.blocking, raftlog.tracing
assert not any(name.startswith("opentelemetry.") for name in sys.modules)
with raftlog.tracing.process(raftlog.Record("t", 0, 0, 0, None, b"")) as span:
    assert span is None
"""
FORKED = """
import os, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from raftlog import tracing
trace.set_tracer_provider(TracerProvider())
marker = tracing.RecordMarker()
with trace.get_tracer("x").start_as_current_span("parent"):
    before = marker.headers()
    child = os.fork()
    with trace.get_tracer("x").start_as_current_span("own") as span:
        mine = marker.headers()[0][1].decode()
        assert f"{span.get_span_context().span_id:016x}" in mine, mine
        assert marker.headers() != before
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("program", [ABSENT, FORKED])
def test_in_a_process_of_its_own(program: str):
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)


TRACED_NODE = """
import json, os, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
out = open(os.environ["SPANS"], "a", buffering=1)
provider = TracerProvider()
exporter = ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(indent=None) + "\\n")
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
from raftlog.entry import main
sys.argv = ["raftlog", "server", "start", *sys.argv[1:]]
main()
"""


@pytest.mark.cluster
async def test_brokers_make_spans_below_the_producers(
    tmp_path: Path, topic_name: str, traces: Traces, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SPANS", str(tmp_path / "spans.txt"))
    launcher = Launcher((sys.executable, "-c", TRACED_NODE))
    with LocalCluster(tmp_path, port=0, controllers=1, brokers=2, launcher=launcher) as cluster:
        url = cluster.bootstrap
        async with Admin(url) as admin:
            await admin.create_topic(topic_name, partitions=1, replication_factor=2)
        async with Producer(url) as producer:
            with traces.tracer.start_as_current_span("order"):
                await producer.send(topic_name, b"x")
            await producer.send(topic_name, b"x" * 2_000_000)
    found = [orjson.loads(line) for line in (tmp_path / "spans.txt").read_text().splitlines()]
    sends = {f"0x{span.get_span_context().span_id:016x}": span for span in traces.named("send")}
    spans = [span for span in found if span["parent_id"] in sends]
    assert [span["name"] for span in spans[:2]] == [f"append {topic_name}", f"replicate {topic_name}"]
    assert {span["kind"] for span in spans[:1]} == {"SpanKind.SERVER"}
    for span in spans[:2]:
        assert span["context"]["trace_id"] == f"0x{traces.named('order')[0].get_span_context().trace_id:032x}"
    assert spans[0]["attributes"].items() >= {"raftlog.offset": 0, "raftlog.acks": "-1"}.items()
