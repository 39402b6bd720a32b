"""Clients of Kafka's protocol under chaos: librdkafka by confluent-kafka, and kcat if it is installed.

They reach brokers directly: librdkafka takes addresses from Metadata, and no setting sends it through a proxy. So they
meet killed, stopped and restarted brokers, and lost disks, but no cut of a link.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, Message, TopicPartition

import raftlog
from chaos.history import Acks, History, Outcome, Read

DELIVERY_TIMEOUT_MS = 60_000
POLL_S = 0.1
READ_WITHIN_S = 60.0
KCAT_WITHIN_S = 90.0
_HARMFUL = (KafkaError._BAD_MSG, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)  # noqa: SLF001
"""Errors of a reader that has lost its place, or received bytes with a wrong checksum."""


def kafka_addresses(bootstrap: list[str]) -> str:
    """Return the cluster's addresses as Kafka's clients take them."""
    return ",".join(url.partition("://")[2] for url in bootstrap)


def kafka_settings(bootstrap: list[str]) -> dict[str, Any]:
    """Return librdkafka's settings for this cluster, with the credentials of the environment."""
    settings: dict[str, Any] = {
        "bootstrap.servers": kafka_addresses(bootstrap),
        "reconnect.backoff.max.ms": 500,
        "broker.address.family": "v4",
    }
    security = raftlog.Security.from_environment()
    if security.ca_file:
        settings |= {
            "security.protocol": "SSL",
            "ssl.ca.location": security.ca_file,
            "ssl.certificate.location": security.cert_file,
            "ssl.key.location": security.key_file,
        }
    return settings


class KafkaProducer:
    """A librdkafka producer whose deliveries are futures of the running loop. `aclose` drops what is in its queue."""

    def __init__(self, bootstrap: list[str], *, acks: Acks = "all", idempotent: bool = True) -> None:
        self._loop = asyncio.get_running_loop()
        settings = {
            "acks": acks,
            "enable.idempotence": idempotent,
            "linger.ms": 0,
            "retry.backoff.ms": 50,
            "message.timeout.ms": DELIVERY_TIMEOUT_MS,
        }
        self._producer = confluent_kafka.Producer(kafka_settings(bootstrap) | settings)
        self._closed = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="kafka-producer", daemon=True)
        self._poller.start()

    async def send(self, topic: str, partition: int, value: str, key: bytes | None = None) -> tuple[int, Outcome, str]:
        """Send one value; return its offset, the outcome, and why.

        Every error is `info`: librdkafka does not say whether a refused record may be in a log.
        """
        done: asyncio.Future[tuple[int, Outcome, str]] = self._loop.create_future()
        told = partial(self._told, done)
        self._producer.produce(topic, value.encode(), key, partition=partition, on_delivery=told)
        return await done

    async def aclose(self) -> None:
        """Drop what is not acknowledged, as a crash does."""
        self._closed.set()
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        await asyncio.to_thread(self._poller.join)

    def _poll(self) -> None:
        while not self._closed.is_set():
            self._producer.poll(POLL_S)
        self._producer.poll(POLL_S)

    def _told(self, done: asyncio.Future[tuple[int, Outcome, str]], error: KafkaError | None, sent: Message) -> None:
        """Settle a delivery; called by the polling thread."""
        result: tuple[int, Outcome, str] = (-1, "info", error.str()) if error is not None else (sent.offset(), "ok", "")
        self._loop.call_soon_threadsafe(_settle, done, result)


def _settle(done: asyncio.Future[tuple[int, Outcome, str]], result: tuple[int, Outcome, str]) -> None:
    if not done.done():
        done.set_result(result)


class KafkaReader:
    """A librdkafka consumer of every partition of a topic, without a group, from the first record on."""

    def __init__(self, bootstrap: list[str], topic: str, partitions: int, *, process: str) -> None:
        self.process = process
        settings = {
            "group.id": process,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "check.crcs": True,
            "fetch.wait.max.ms": 100,
        }
        self._consumer = confluent_kafka.Consumer(kafka_settings(bootstrap) | settings)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])

    def fetch(self, history: History) -> list[Read]:
        """Return the next records, and note errors in the history; blocks for `POLL_S` at most."""
        reads = list[Read]()
        for message in self._consumer.consume(1_000, POLL_S):
            if (error := message.error()) is None:
                reads.append(_seen(self.process, message))
                continue
            history.note(f"{self.process}: {error.str()}")
            if error.code() in _HARMFUL:
                history.corruptions.append(f"{self.process}: {error.str()}")
        return reads

    def close(self) -> None:
        self._consumer.close()


def _seen(process: str, message: Message) -> Read:
    partition, offset, value = message.partition(), message.offset(), message.value()
    return Read(
        process=process,
        partition=partition,
        offset=offset,
        value=(value or b"").decode(),
        completed_ns=time.monotonic_ns(),
    )


async def tail_with_kafka(history: History, bootstrap: list[str], topic: str, partitions: int, process: str) -> None:
    """Read every record of a topic into the history, until this task is cancelled."""
    reader = KafkaReader(bootstrap, topic, partitions, process=process)
    stopped = threading.Event()

    def tail() -> None:
        while not stopped.is_set():
            history.reads.extend(reader.fetch(history))
        reader.close()

    tailing = asyncio.create_task(asyncio.to_thread(tail))
    try:
        await asyncio.shield(tailing)
    finally:
        stopped.set()
        await tailing


async def read_everything_with_kafka(history: History, bootstrap: list[str], topic: str) -> None:
    """Read the topic once more by librdkafka, and by kcat if it is installed, up to the end of the reads before.

    Raises:
        TimeoutError: a reader does not reach the end.
        OSError: kcat failed.
    """
    ends: dict[int, int] = defaultdict(int)
    for read in history.final_reads:
        ends[read.partition] = max(ends[read.partition], read.offset + 1)
    history.final_reads += await asyncio.to_thread(_read_until, history, bootstrap, topic, dict(ends))
    if has_kcat():
        for partition in ends:
            history.final_reads += await read_with_kcat(bootstrap, topic, partition, process="final-kcat")


def _read_until(history: History, bootstrap: list[str], topic: str, ends: Mapping[int, int]) -> list[Read]:
    reader = KafkaReader(bootstrap, topic, max(ends) + 1, process="final-confluent")
    reads, left, until = list[Read](), set(ends), time.monotonic() + READ_WITHIN_S
    try:
        while left:
            if time.monotonic() > until:
                raise TimeoutError(f"{reader.process} has not read partitions {sorted(left)} in {READ_WITHIN_S:g} s")
            for read in reader.fetch(history):
                reads.append(read)
                if read.offset + 1 >= ends.get(read.partition, 0):
                    left.discard(read.partition)
    finally:
        reader.close()
    return reads


def has_kcat() -> bool:
    """Return whether kcat is on PATH."""
    return shutil.which("kcat") is not None


async def send_with_kcat(
    bootstrap: list[str], topic: str, partition: int, records: Iterable[tuple[int, str]]
) -> tuple[Outcome, str]:
    """Send keys and values by one run of kcat; return the outcome of all of them, and why. It tells no offsets.

    kcat exits with 0 only if every record was acknowledged.
    """
    more = ["-P", "-K", "\t", "-X", "acks=all", "-X", "enable.idempotence=true"]
    lines = "".join(f"{key}\t{value}\n" for key, value in records)
    code, _, problem = await _kcat(bootstrap, topic, partition, more, lines.encode())
    return ("ok", "") if code == 0 else ("info", problem)


async def read_with_kcat(bootstrap: list[str], topic: str, partition: int, *, process: str) -> list[Read]:
    """Read a partition from its start to its end by kcat.

    Raises:
        OSError: kcat failed; the text is its own.
    """
    more = ["-C", "-o", "beginning", "-e", "-q", "-f", "%o %s\n"]
    code, out, problem = await _kcat(bootstrap, topic, partition, more)
    if code != 0:
        raise OSError(f"kcat -C exited with {code}: {problem}")
    now = time.monotonic_ns()
    pairs = (line.split(" ", 1) for line in out.decode().splitlines())
    return [
        Read(process=process, partition=partition, offset=int(offset), value=value, completed_ns=now)
        for offset, value in pairs
    ]


async def _kcat(
    bootstrap: list[str], topic: str, partition: int, more: list[str], lines: bytes = b""
) -> tuple[int, bytes, str]:
    settings = kafka_settings(bootstrap)
    addresses = settings.pop("bootstrap.servers")
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    child = await asyncio.create_subprocess_exec(
        "kcat", "-b", addresses, "-t", topic, "-p", str(partition), *options, *more,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(KCAT_WITHIN_S):
            out, err = await child.communicate(lines)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode is not None
    return child.returncode, out, err.decode("utf-8", "replace")[-500:]
