"""The timeline of a record: stamps are merged, nested and drawn; a traced process does the same as before."""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import orjson
import pytest

from benchmarks import __main__ as command
from benchmarks.timeline import node
from benchmarks.timeline.picture import draw
from benchmarks.timeline.spans import (
    LEGS,
    Message,
    ProcessTrace,
    Record,
    Span,
    by_kind,
    legs,
    messages,
    records_of,
    table,
    turns,
)
from benchmarks.timeline.targets import JSON, KINDS, LOOP, POLL, STEP, TARGETS, WAIT, kind_of
from benchmarks.timeline.tracer import Tracer
from raftlog.transport import session
from raftlog.wire import codec

US = 1_000
RECORDS = records_of([(0, 80 * US), (100 * US, 190 * US), (200 * US, 290 * US)])
"""Two records, each 100 µs behind the other; the third only ends the second."""


def _spans(start: int) -> list[Span]:
    """Return a turn of 50 µs with a step of 40 µs in which JSON is encoded for 10 µs, and a wait of 45 µs, 5 by CPU."""
    return [
        Span("encode_json", start + 10 * US, start + 20 * US, 1),
        Span("step of Sender._send", start + 5 * US, start + 45 * US, 1),
        Span(LOOP, start, start + 50 * US, 1),
        Span(WAIT, start + 52 * US, start + 97 * US, 1, 0, 5 * US),
    ]


def _trace(role: str = "client", **more: object) -> ProcessTrace:
    return ProcessTrace(role=role, spans=[*_spans(0), *_spans(100 * US)], **more)  # type: ignore[arg-type]


def test_own_time_is_that_without_the_spans_inside():
    rows = {row.label: row for row in table([_trace()], RECORDS)}
    assert {label: row.own_us for label, row in rows.items()} == {
        "step of Sender._send": 30, "encode_json": 10, LOOP: 10, WAIT: 5,
    }  # fmt: skip
    assert {row.calls for row in rows.values()} == {1}


def test_what_a_stamp_costs_is_not_its_callers_time():
    rows = table([_trace(cost_ns={"": 2 * US, STEP: 3 * US})], RECORDS)
    assert {row.label: row.own_us for row in rows}[LOOP] == 7
    assert {row.label: row.own_us for row in rows}["step of Sender._send"] == 28


def test_threads_are_not_nested_into_each_other():
    in_a_worker = Span("fdatasync", 12 * US, 30 * US, 2, 7, 3 * US)
    trace = ProcessTrace(role="leader", spans=[*_spans(0), in_a_worker])
    own = {one.span.label: one.own for one in trace.placed()}
    assert own["step of Sender._send"] == 30 * US
    assert own["fdatasync"] == 3 * US


def test_kinds_add_up_by_role():
    sums = by_kind(table([_trace(), _trace("leader")], RECORDS))
    assert sums[JSON] == {"client": (1, 10), "leader": (1, 10)}
    assert sums.keys() <= set(KINDS)
    assert turns(_trace(), RECORDS) == [1, 1]


def test_every_target_exists():
    """A renamed function would vanish from the table without a word."""
    tracer = Tracer()
    for target in TARGETS:
        module_name, _, name = target.place.partition(":")
        found: object = __import__(module_name, fromlist=["x"])
        for part in name.split("."):
            found = getattr(found, part)
        assert callable(found), target
        assert kind_of(target.label) == target.kind
    assert not tracer.stamps


def _sent(at: int, own: int, peer: int, role: str) -> ProcessTrace:
    ports = {3: (own, peer)}
    return ProcessTrace(role=role, spans=[Span("writev", at, at + 5, 1, 3)], ports=ports)


def test_a_message_joins_a_write_and_the_read_at_its_peer():
    reader = ProcessTrace(
        role="leader",
        spans=[Span("socket.recv_into", 20, 25, 1, 9), Span("socket.recv_into", 40, 45, 1, 9)],
        ports={9: (9400, 5000)},
    )
    assert messages([_sent(10, 5000, 9400, "client"), reader]) == [Message("client", "leader", 15, 20)]
    assert messages([_sent(10, 5001, 9400, "client"), reader]) == []


def test_the_way_of_a_record_is_that_of_the_last_follower():
    sent = [
        Message("client", "leader", 10, 12),
        Message("leader", "follower 1", 30, 31),
        Message("leader", "follower 2", 33, 36),
        Message("follower 1", "leader", 50, 51),
        Message("follower 2", "leader", 58, 60),
        Message("leader", "client", 70, 75),
    ]
    way = legs(sent, Record(0, 80, 100))
    assert way == [10, 2, 21, 3, 22, 2, 10, 5, 5]
    assert len(way) == len(LEGS)
    assert legs(sent[1:], Record(0, 80, 100)) is None


def test_the_picture_is_well_formed():
    sent = [Message("client", "leader", 10 * US, 20 * US), Message("leader", "client", 60 * US, 70 * US)]
    root = ET.fromstring(draw([_trace(), _trace("leader")], RECORDS[0], sent))
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}line[@class='message']")) == 2
    told = {title.text for title in root.iter(f"{space}title")}
    assert "encode_json: 10 µs, own 10 µs, from 10" in told
    assert "leader to client: 10 µs" in told


async def test_a_tracer_stamps_until_it_is_stopped():
    originals = codec.encode_json, session.encode_json, asyncio.Handle.__dict__["_run"], os.writev
    tracer, reading, writing = Tracer(), *os.pipe()

    async def work() -> None:
        assert codec.encode_json({"a": 1}) == b'{"a":1}'
        os.writev(writing, [b"x"])
        await asyncio.sleep(0)
        raise ValueError("as before")

    tracer.start()
    assert session.encode_json is codec.encode_json is not originals[0]
    with pytest.raises(ValueError, match="as before"):
        await asyncio.create_task(work())
    tracer.stop()
    assert (codec.encode_json, session.encode_json, asyncio.Handle.__dict__["_run"], os.writev) == originals
    assert "select" in vars(selectors.EpollSelector)
    labels = [stamp[0] for stamp in tracer.stamps]
    work_name = next(label for label in labels if label.endswith("work"))
    assert {"encode_json", "writev", POLL, LOOP, work_name} <= set(labels)
    await asyncio.sleep(0)  # The step that stopped the tracer is stamped when it ends.
    stamped = len(tracer.stamps)
    await asyncio.sleep(0)
    assert len(tracer.stamps) == stamped
    os.close(reading)
    os.close(writing)


async def test_a_timed_coroutine_is_cancelled_as_before():
    tracer, began, seen = Tracer(), asyncio.Event(), list[type[BaseException]]()

    async def waits(value: int) -> int:
        try:
            began.set()
            await asyncio.sleep(3_600)
        except asyncio.CancelledError as error:
            seen.append(type(error))
            raise
        return value

    timed = tracer._timed_async("waits", waits)

    async def calls() -> None:
        await timed(1)

    task = asyncio.create_task(calls())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [asyncio.CancelledError]
    assert [stamp[0] for stamp in tracer.stamps] == ["waits", "waits"]


def test_a_node_is_started_with_its_own_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Without a signal, it is the ordinary node."""
    ran = list[list[str]]()
    handlers = {number: signal.getsignal(number) for number in (node.START, node.STOP)}
    monkeypatch.setattr(node, "main", lambda: ran.append(sys.argv))
    try:
        node.run(["--config", str(tmp_path / "node.toml")])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert ran == [["raftlog", "server", "start", "--config", str(tmp_path / "node.toml")]]


@pytest.mark.cluster
def test_a_record_is_traced_through_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["benchmarks", "trace", "--quick", "--only", "unsynced"])
    assert command.main() == 0
    figures = orjson.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    for role in ("client", "leader", "follower_1", "follower_2"):
        assert figures[f"unsynced_{role}_cpu_us"]["median"] > 0
        assert figures[f"unsynced_{role}_turns"]["median"] >= 1
    stored = orjson.loads((tmp_path / "build" / "bench" / "trace-unsynced.json").read_bytes())
    done = {(row["role"], row["label"]) for row in stored["rows"]}
    assert {("client", "writev"), ("leader", "Replica.append_now"), ("follower 1", "PartitionLog.append")} <= done
    assert list(stored["legs_us"]) == list(LEGS)
    assert sum(stored["legs_us"].values()) > 0
    ET.parse(tmp_path / "build" / "bench" / "trace-unsynced.svg")
