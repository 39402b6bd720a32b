"""The exactly-once example on real processes: brokers and the example itself are killed in the middle."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from raftlog import Admin, Consumer, Producer, RetriableError
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client.core.membership import GroupMetadata

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(180)]
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "exactly_once.py"
SOURCE, TARGET, RECORDS = "orders", "invoices", 3_000


def start_example(cluster: LocalCluster, number: int, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(EXAMPLE), SOURCE, TARGET, "--bootstrap", cluster.bootstrap, "--id", f"id-{number}"]
    with log.open("ab") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, env=os.environ | {"PYTHONPATH": str(ROOT)})


async def feed(cluster: LocalCluster) -> None:
    async with Producer(cluster.bootstrap) as producer:
        for start in range(0, RECORDS, 50):
            sent = [producer.send_nowait(SOURCE, b"%d" % n, key=b"%d" % n) for n in range(start, start + 50)]
            await asyncio.gather(*sent)
            await asyncio.sleep(0.1)


async def committed(cluster: LocalCluster) -> Counter[int]:
    """Read what counts now."""
    async with Consumer(cluster.bootstrap, TARGET, start="earliest", isolation="read_committed") as consumer:
        found: Counter[int] = Counter()
        ends = await consumer.end_offsets()
        while any(consumer.position(*partition) < end for partition, end in ends.items()):
            for record in await consumer.fetch():
                assert record.value is not None
                found[int(record.value.removeprefix(b"invoice for "))] += 1
        return found


async def until_done(cluster: LocalCluster, seconds: float) -> Counter[int]:
    found = Counter[int]()
    async with asyncio.timeout(seconds):
        while len(found) < RECORDS:
            try:
                found = await committed(cluster)
            except RetriableError:
                await asyncio.sleep(0.2)
            assert all(count == 1 for count in found.values()), "an invoice was written twice"
            await asyncio.sleep(0.2)
    return found


async def leave_open(cluster: LocalCluster) -> Producer:
    """Begin a transaction of one of the examples that stays open for as long as one can, as if it had been killed."""
    producer = Producer(cluster.bootstrap, transactional_id="id-1", transaction_timeout_ms=900_000)
    transaction = await producer.transaction().__aenter__()
    await producer.send(TARGET, b"never", partition=0)
    await transaction.send_offsets({(SOURCE, number): 0 for number in range(3)}, GroupMetadata("invoicing"))
    return producer


async def coordinator_of(cluster: LocalCluster, kind: str, key: str) -> str:
    import aiohttp  # noqa: PLC0415

    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{cluster.bootstrap.split(',')[0]}/v1/coordinators/{kind}/{key}") as response,
    ):
        return f"broker-{(await response.json())['broker_id']}"


async def test_every_record_has_one_effect_whoever_is_killed(tmp_path: Path):
    with LocalCluster(tmp_path / "cluster", port=0) as cluster:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topic(SOURCE, partitions=3, replication_factor=3)
            await admin.create_topic(TARGET, partitions=3, replication_factor=3)
        killed = await leave_open(cluster)
        log = tmp_path / "example.log"
        examples = [start_example(cluster, number, log) for number in range(2)]
        try:
            feeding = asyncio.create_task(feed(cluster))
            async with asyncio.timeout(60):
                while sum((await committed(cluster)).values()) < 100:
                    assert all(example.poll() is None for example in examples), "an example has ended"
                    await asyncio.sleep(0.1)
            victim = await coordinator_of(cluster, "transaction", "id-0")
            await asyncio.to_thread(cluster.kill, victim)
            await asyncio.sleep(1)
            examples[1].send_signal(signal.SIGKILL)
            examples[1].wait()
            examples[1] = start_example(cluster, 1, log)
            await asyncio.to_thread(cluster.start_node, victim)
            await asyncio.to_thread(cluster.wait_ready)
            second = await coordinator_of(cluster, "group", "invoicing")
            await asyncio.to_thread(cluster.kill, second)
            await asyncio.sleep(1)
            await asyncio.to_thread(cluster.start_node, second)
            await feeding
            found = await until_done(cluster, 90)
        except BaseException:
            print(log.read_text()[-4000:])
            raise
        finally:
            for example in examples:
                example.kill()
                example.wait()
            await killed.close()

    assert (sum(found.values()), set(found)) == (RECORDS, set(range(RECORDS)))
