"""Starts a bulk load beside a scenario (LOAD=records a second), stops it, and turns its result into a verdict."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import orjson

import raftlog
from chaos.bulk import SAMPLE, BulkOrders, BulkResult, Sent, Sighting
from chaos.checker import Verdict, check
from chaos.cluster import ChaosCluster
from chaos.history import UNKNOWN_PARTITION, History, Read, Send
from chaos.site import BrokenPromiseError

TOPIC = "bulk"
CONFIGS: dict[str, str | int | bool] = {"segment_bytes": 16 << 20, "retention_bytes": 96 << 20}
"""Small enough for the disks of a run, large enough for a reader that lags for some seconds."""
NODE_SETTINGS: Mapping[str, Any] = {"retention_check_interval_ms": 1_000}
"""Settings of brokers under a bulk load: at 10 MB/s, the default interval of half a minute would fill their disks."""
DISK_BYTES = 3 << 30
STOP_WITHIN_S = 60.0
JUDGE_WITHIN_S = 180.0


class BulkLoadError(Exception):
    """A process of the bulk load exited by itself, or did not exit before the deadline."""


class BulkLoad:
    """A writer and a reader of a topic of their own. Use as an async context manager, then call `finish`.

    Args:
        bootstrap, dial: of the cluster, for the two processes.
        folder: for their files and logs.
        rate: records a second.
        configs: settings of the topic, beside those that bound its size.
    """

    def __init__(
        self, bootstrap: list[str], dial: Mapping[str, str], folder: Path, *, rate: int, partitions: int = 3
    ) -> None:
        self._folder = folder
        self._bootstrap = bootstrap
        self._orders = BulkOrders(
            bootstrap=bootstrap,
            dial=dict(dial),
            topic=TOPIC,
            partitions=partitions,
            rate=rate,
            sent_file=str(folder / "sent.jsonl"),
            result_file=str(folder / "result.json"),
            parent_pid=os.getpid(),
        )
        self._writer: subprocess.Popen[bytes] | None = None
        self._reader: subprocess.Popen[bytes] | None = None

    @property
    def topic(self) -> str:
        return self._orders.topic

    async def create_topic(self, *, replication_factor: int, configs: Mapping[str, str | int | bool]) -> None:
        """Create the topic; retention bounds its size."""
        async with raftlog.Admin(self._bootstrap) as admin:
            await admin.create_topic(
                TOPIC,
                partitions=self._orders.partitions,
                replication_factor=replication_factor,
                configs={**configs, **CONFIGS},
            )

    async def __aenter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._reader = self._start("reader", stdin=subprocess.PIPE)
        self._writer = self._start("writer")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the writer; the reader runs until `finish` or `kill`."""
        assert self._writer is not None
        await self._stop_writer(self._writer)

    @property
    def pids(self) -> dict[str, int]:
        """The processes that run, by name."""
        running = {"writer": self._writer, "reader": self._reader}
        return {name: process.pid for name, process in running.items() if process is not None}

    async def finish(self) -> BulkResult:
        """Wait until the reader has read to the end; return its result.

        Call it once the cluster is healthy and the block was left.

        Raises:
            BulkLoadError: the reader exited by itself, or not before the deadline.
        """
        assert self._reader is not None
        assert self._reader.stdin is not None
        self._reader.stdin.close()
        try:
            code = await asyncio.to_thread(self._reader.wait, JUDGE_WITHIN_S)
        except subprocess.TimeoutExpired:
            raise BulkLoadError(f"the bulk reader has not exited within {JUDGE_WITHIN_S:g} s") from None
        finally:
            self.kill()
        if code != 0:
            raise BulkLoadError(f"the bulk reader exited with {code}: {self._log_tail('reader')}")
        return _result(Path(self._orders.result_file))

    def kill(self) -> None:
        """Kill the processes that still run."""
        for process in (self._writer, self._reader):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
            if process is not None and process.stdin is not None:
                process.stdin.close()

    async def _stop_writer(self, writer: subprocess.Popen[bytes]) -> None:
        if (code := writer.poll()) is not None:
            raise BulkLoadError(f"the bulk writer exited by itself with {code}: {self._log_tail('writer')}")
        writer.send_signal(signal.SIGTERM)
        try:
            code = await asyncio.to_thread(writer.wait, STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            raise BulkLoadError(f"the bulk writer has not exited within {STOP_WITHIN_S:g} s of SIGTERM") from None
        if code != 0:
            raise BulkLoadError(f"the bulk writer exited with {code}: {self._log_tail('writer')}")

    def _start(self, what: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        root = Path(__file__).parents[1]
        command = [sys.executable, "-m", f"chaos.bulk_{what}", orjson.dumps(asdict(self._orders)).decode()]
        with (self._folder / f"{what}.txt").open("wb") as log:
            return subprocess.Popen(
                command, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, stdin=stdin, stdout=log, stderr=log
            )

    def _log_tail(self, what: str) -> str:
        return (self._folder / f"{what}.txt").read_text("utf-8", "replace")[-2_000:]


def settings_for_load(brokers: int) -> dict[str, Any]:
    """Return the settings of a cluster under a bulk load: retention runs often, and the disks are large enough."""
    extra = {f"broker-{number}": {"broker": dict(NODE_SETTINGS)} for number in range(1, brokers + 1)}
    return {"extra": extra, "disk_bytes": DISK_BYTES}


@asynccontextmanager
async def bulk_load(
    cluster: ChaosCluster, folder: Path, rate: int, *, brokers: int, configs: Mapping[str, Any]
) -> AsyncIterator[BulkLoad | None]:
    """Prepare a bulk load of so many records a second, or None; kill its processes when the block is left."""
    if not rate:
        yield None
        return
    load = BulkLoad(cluster.bootstrap, cluster.dial, folder, rate=rate)
    await load.create_topic(replication_factor=brokers, configs=configs)
    await cluster.wait_full_isr(load.topic, within_s=30)
    try:
        yield load
    finally:
        load.kill()


def sampled_history(result: BulkResult) -> History:
    """Return the history of the sampled records, for the suite's checker."""
    history = History(log_starts={int(partition): offset for partition, offset in result.log_starts.items()})
    for sent in result.sent:
        places = {number: (partition, offset) for number, partition, offset in sent.sample}
        for number in range(-(-sent.first // SAMPLE) * SAMPLE, sent.first + sent.count, SAMPLE):
            partition, offset = places.get(number, (UNKNOWN_PARTITION, -1))
            history.sends.append(
                Send(
                    process=f"bulk-{sent.life}/{sent.first}",
                    partition=partition,
                    value=f"{sent.life}:{number}",
                    invoked_ns=sent.invoked_ns,
                    completed_ns=sent.completed_ns,
                    outcome="ok" if sent.ok else "info",
                    offset=offset,
                )
            )
    history.reads += [_read("bulk-tail", seen) for seen in result.tail]
    history.final_reads += [_read("bulk-final", seen) for seen in result.final]
    return history


async def judge_bulk(bulk: BulkLoad | None, figures: dict[str, Any]) -> None:
    """Judge a bulk load whose block was left, and add its counts to the figures.

    Raises:
        BrokenPromiseError: a record was lost, repeated, or was never sent.
        BulkLoadError: the reader did not exit.
    """
    if bulk is None:
        return
    result = await bulk.finish()
    verdict = check(sampled_history(result))
    figures["bulk"] = figures_of(result, verdict)
    if broken := broken_by(result, verdict):
        raise BrokenPromiseError(broken)


def figures_of(result: BulkResult, verdict: Verdict) -> dict[str, Any]:
    """Return a bulk load's figures for the report."""
    return {
        "acknowledged": result.acknowledged,
        "unknown": result.unknown,
        "read": result.read,
        "lost": result.lost,
        "repeated": result.repeated,
        "foreign": result.foreign,
        "gaps": result.gaps,
        "sampled": len(result.tail),
        "anomalies": verdict.kinds,
        "problems": result.problems,
    }


def broken_by(result: BulkResult, verdict: Verdict) -> str:
    """Return what is wrong, or an empty string."""
    counts = {"lost": result.lost, "repeated": result.repeated, "foreign": result.foreign, "gaps": result.gaps}
    wrong = [f"{count} {name}" for name, count in counts.items() if count]
    wrong += [f"{kind} in the sample: {count}" for kind, count in verdict.kinds.items()]
    wrong += result.problems
    if not verdict.valid:
        wrong.append("no record was acknowledged, or none was read")
    return f"bulk load: {'; '.join(wrong)}" if wrong else ""


def _read(process: str, seen: Sighting) -> Read:
    return Read(
        process=process,
        partition=seen.partition,
        offset=seen.offset,
        value=f"{seen.life}:{seen.number}",
        completed_ns=seen.seen_ns,
    )


def _result(file: Path) -> BulkResult:
    plain = orjson.loads(file.read_bytes())
    sent = [Sent(**one) for one in plain.pop("sent")]
    tail = [Sighting(**one) for one in plain.pop("tail")]
    final = [Sighting(**one) for one in plain.pop("final")]
    return BulkResult(**plain, sent=sent, tail=tail, final=final)
