"""`raftlog produce` and `consume` against stand-ins for the client: counts, interruptions, ends, mistakes."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Self
from unittest.mock import AsyncMock

import orjson
import pytest
from click.testing import CliRunner, Result

from raftlog import Security
from raftlog.cli import consume, produce, remote
from raftlog.cli.main import cli
from raftlog.cli.times import parse_time
from raftlog.errors import InvalidRequestError, NotFoundError, OverloadedError, UnknownOutcomeError
from raftlog.record import Record
from raftlog.wire.metadata import PartitionInfo, TopicInfo


def invoke(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin)


class FakeAdmin:
    """Knows the topics t (one partition) and three (three)."""

    def __init__(self, bootstrap: Sequence[str], *, timeout_ms: int, security: Security) -> None:
        self.bootstrap = bootstrap

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def describe_topic(self, topic: str, *, local: bool) -> TopicInfo:
        count = {"t": 1, "three": 3}.get(topic)
        if count is None:
            raise NotFoundError(f"no topic {topic}")
        partitions = tuple(
            PartitionInfo(partition=i, leader=1, leader_epoch=0, replicas=(1,), isr=(1,)) for i in range(count)
        )
        return TopicInfo(topic=topic, topic_id="0" * 32, partitions=partitions)


class FakeProducer:
    """Acknowledges everything on the next turn of the loop, except values that ask for something else."""

    sent: ClassVar[list[tuple[str, dict[str, Any]]]] = []
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, bootstrap: Sequence[str], **options: Any) -> None:
        type(self).options = {"bootstrap": bootstrap, **options}
        self._futures: list[asyncio.Future[str]] = []
        self._full = False

    def send_nowait(self, topic: str, value: bytes | None, **options: Any) -> asyncio.Future[str]:
        if value == b"full" and not self._full:
            self._full = True
            raise OverloadedError("the buffer is full")
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        self.sent.append((topic, {"value": value, **options}))
        asyncio.get_running_loop().call_soon(self._settle, future, value)
        return future

    def _settle(self, future: asyncio.Future[str], value: bytes | None) -> None:
        if value == b"unknown":
            future.set_exception(UnknownOutcomeError("no answer within 5 ms"))
        elif value == b"failed":
            future.set_exception(InvalidRequestError("the record is too large"))
        elif value != b"never":
            future.set_result("ok")

    async def flush(self) -> None:
        await asyncio.gather(*self._futures, return_exceptions=True)

    close = flush


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeProducer.sent = []
    monkeypatch.setattr(remote, "Admin", FakeAdmin)
    monkeypatch.setattr(remote, "require_cluster", AsyncMock())
    monkeypatch.setattr(produce, "Producer", FakeProducer)


def test_lines_are_records():
    result = invoke("produce", "t", stdin=b"one\ntwo\r\n\nfour")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "4 records acknowledged\n")
    assert [options["value"] for _, options in FakeProducer.sent] == [b"one", b"two", b"", b"four"]
    assert FakeProducer.options["acks"] == "all"


def test_keys_and_json():
    assert invoke("produce", "t", "--key-separator", ":", stdin=b"k:v:w\n").exit_code == 0
    assert invoke("produce", "t", "--format", "json", stdin=b'{"key": "a", "partition": 0}\n').exit_code == 0
    assert [(sent["key"], sent["value"], sent["partition"]) for _, sent in FakeProducer.sent] == [
        (b"k", b"v:w", None), (b"a", None, 0),
    ]  # fmt: skip


def test_a_full_buffer_is_waited_for():
    result = invoke("produce", "t", stdin=b"one\nfull\nthree\n")
    assert (result.exit_code, result.stderr) == (0, "3 records acknowledged\n")


def test_nothing_to_send():
    assert invoke("produce", "t", stdin=b"").stderr == "0 records acknowledged\n"


@pytest.mark.parametrize(
    ("stdin", "stderr"),
    [
        (
            b"one\nunknown\n",
            (
                "1 record acknowledged, 1 unknown (they may be in the log)\n"
                "Error: REQUEST_TIMED_OUT: no answer within 5 ms\n"
            ),
        ),
        (b"one\nfailed\n", "1 record acknowledged, 1 failed\nError: INVALID_REQUEST: the record is too large\n"),
    ],
)
def test_what_went_wrong_is_counted(stdin: bytes, stderr: str):
    result = invoke("produce", "t", stdin=stdin)
    assert (result.exit_code, result.stderr) == (1, stderr)


def test_a_bad_line_is_named_and_what_went_before_is_reported():
    result = invoke("produce", "t", "--key-separator", ":", stdin=b"a:1\nb:2\noops\nd:4\n")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "2 records acknowledged",
        "Error: INVALID_REQUEST: line 3: expected a key, b':' and a value, received b'oops'",
    ]


def test_acks_0_claims_nothing():
    assert invoke("produce", "t", "--acks", "0", stdin=b"a\n").stderr.startswith("1 record sent (acks=0")


def test_an_interruption_reports(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(produce, "INTERRUPTED_FLUSH_S", 0.05)

    chunks = iter([b"one\ntwo\nnever\n"])

    def read() -> bytes:
        if (chunk := next(chunks, None)) is not None:
            return chunk
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(5)  # As a terminal where nobody types.
        return b""

    monkeypatch.setattr(produce, "chunk_reader", lambda _: read)
    result = invoke("produce", "t")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "2 records acknowledged, 1 unknown (they may be in the log)",
        "interrupted: the rest of the input was not sent",
    ]


class FakeConsumer:
    """Hands out its batches, then nothing; notes how it was asked."""

    batches: ClassVar[list[list[Record]]] = []
    calls: ClassVar[list[Any]] = []

    def __init__(self, bootstrap: Sequence[str], *topics: str, **options: Any) -> None:
        self.calls.append((topics, options))
        self._left = iter(self.batches)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def seek(self, *where: Any) -> None:
        self.calls.append(("seek", *where))

    async def fetch(self, *, max_records: int | None, max_wait_ms: int) -> list[Record]:
        if (batch := next(self._left, None)) is not None:
            return batch
        await asyncio.sleep(max_wait_ms / 1000)
        return []


@pytest.fixture(autouse=True)
def consumer(monkeypatch: pytest.MonkeyPatch) -> type[FakeConsumer]:
    records = [Record("t", 0, i, 1_000_000, b"k", f"v{i}".encode(), ()) for i in range(5)]
    FakeConsumer.batches = [records[:3], records[3:]]
    FakeConsumer.calls = []
    monkeypatch.setattr(consume, "Consumer", FakeConsumer)
    return FakeConsumer


def test_max_records_stops_within_a_batch():
    result = invoke("consume", "t", "--from-beginning", "--max-records", "4")
    assert (result.exit_code, result.stdout) == (0, "v0\nv1\nv2\nv3\n")
    assert FakeConsumer.calls == [
        (("t",), {"partitions": None, "start": "earliest", "isolation": "read_uncommitted", "security": Security()})
    ]


def test_timeout_stops_when_nothing_comes():
    result = invoke("consume", "t", "--timeout", "0.1", "--format", "json")
    assert result.exit_code == 0
    lines = [orjson.loads(line) for line in result.stdout.splitlines()]
    assert lines[4] == {
        "topic": "t", "partition": 0, "offset": 4, "timestamp": 1000,
        "key": "k", "value": "v4", "headers": [],
    }  # fmt: skip
    assert FakeConsumer.calls == [
        (("t",), {"partitions": None, "start": "latest", "isolation": "read_uncommitted", "security": Security()})
    ]


def test_an_offset_is_of_one_partition():
    assert invoke("consume", "three", "--partition", "2", "--offset", "7", "--max-records", "1").exit_code == 0
    assert invoke("consume", "t", "--offset", "8", "--max-records", "1").exit_code == 0
    assert [call[1:] for call in FakeConsumer.calls if call[0] == "seek"] == [("three", 2, 7), ("t", 0, 8)]


def test_ctrl_c_is_a_normal_end():
    async def interrupt(self: FakeConsumer, *, max_records: int | None, max_wait_ms: int) -> list[Record]:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(30)
        return []

    FakeConsumer.fetch, before = interrupt, FakeConsumer.fetch  # type: ignore[method-assign]
    try:
        assert invoke("consume", "t").exit_code == 0
    finally:
        FakeConsumer.fetch = before  # type: ignore[method-assign]


def test_since_is_a_time():
    assert invoke("consume", "t", "--since", "1970-01-01T00:00:05Z", "--max-records", "1").exit_code == 0
    assert invoke("consume", "t", "--since", "1763942400000", "--max-records", "1").exit_code == 0
    assert [call[1]["start"] for call in FakeConsumer.calls] == [
        datetime.fromtimestamp(5, UTC),
        datetime(2025, 11, 24, tzinfo=UTC),
    ]
    assert parse_time("2h", 7_300_000) == datetime.fromtimestamp(100, UTC)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["produce"], 2, "Missing argument 'TOPIC'"),
        (["produce", "nope"], 1, "topic 'nope' does not exist; create it with: raftlog topics create nope"),
        (["produce", "t", "--acks", "2"], 2, "'2' is not one of 'all', '1', '0'"),
        (["produce", "t", "--key-separator", ""], 2, "expected at least one character"),
        (["produce", "t", "--key-separator", ":", "--format", "json"], 2, "--key-separator is for --format value"),
        (["produce", "t", "--bootstrap", "ftp://localhost"], 2, "expected a URL such as http://127.0.0.1:9400"),
        (["consume", "nope"], 1, "topic 'nope' does not exist; create it with: raftlog topics create nope"),
        (["consume", "t", "--from-beginning", "--offset", "1"], 2, "exclude each other"),
        (["consume", "three", "--offset", "1"], 2, "--offset needs --partition: three has 3 partitions"),
        (["consume", "t", "--partition", "1"], 1, "topic 't' has the partitions 0 to 0, received 1"),
        (["consume", "t", "--since", "noon"], 2, "expected ISO 8601, milliseconds since 1970, or a time ago"),
        (["consume", "t", "--max-records", "0"], 2, "0 is not in the range x>=1"),
        (["consume", "t", "--timeout", "-1"], 2, "-1.0 is not in the range"),
        (["topics", "create"], 2, "Missing argument 'NAME'"),
        (["topics", "create", "t", "--partitions", "0"], 2, "0 is not in the range"),
        (["topics", "create", "t", "--config", "x"], 2, "expected name=value, received 'x'"),
        (["topics", "create", "t", "--config", "x=1", "--config", "x=2"], 2, "x is set twice"),
        (["nonsense"], 2, "No such command 'nonsense'"),
    ],
)
def test_mistakes(arguments: list[str], code: int, message: str):
    result = invoke(*arguments, stdin=b"line\n")
    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr
    assert FakeProducer.sent == []


def test_help_needs_nothing_from_the_client():
    for name in ("cluster", "consume", "dev", "produce", "server", "storage", "topics"):
        assert invoke(name, "--help").exit_code == 0
    assert "Exit codes" in invoke("--help").stdout
