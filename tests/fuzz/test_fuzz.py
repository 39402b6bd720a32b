"""The fuzzer, briefly: what it once found stays found, it finds what it is for, and a short run is clean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fuzz.batches import Batches, seeds
from fuzz.brokers import Brokers
from fuzz.clients import Clients
from fuzz.cluster import FuzzedCluster
from fuzz.kafka_brokers import KafkaBrokers
from fuzz.kafka_messages import KafkaMessages
from fuzz.kafka_records import KafkaRecords
from fuzz.requests import BODIES, PATHS, listener_of
from fuzz.run import CORPUS, explore_count, replay
from fuzz.target import Finding, Target
from raftlog.record import parse_header, reading, validate_batch
from raftlog.record.kafka import decode
from raftlog.wire.kafka.reader import Reader

ENOUGH = 10_000
"""Inputs until a planted fault counts as missed.

A fault takes 250 inputs on average. Which inputs a seed gives changes with the modules that earlier tests have loaded:
hypothesis draws the constants of loaded modules too.
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[FuzzedCluster]:
    with FuzzedCluster() as cluster:
        yield cluster


def test_batches_are_read_or_refused(tmp_path: Path):
    with Batches() as target:
        assert replay(target) == []
        assert explore_count(target, 1, 600, tmp_path) is None


def test_readers_that_trust_what_they_are_sent_are_found_and_the_input_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(reading, "check_structure", lambda *_: (0, None))
    with Batches() as target:
        found = explore_count(target, 1, ENOUGH, tmp_path)

        assert found is not None
        with pytest.raises(Finding):
            target.judge(found.path.read_bytes())
    monkeypatch.undo()
    with Batches() as target:
        target.judge(found.path.read_bytes())


def test_batches_of_kafka_are_read_or_refused(tmp_path: Path):
    with KafkaRecords() as target:
        assert replay(target) == []
        assert explore_count(target, 1, 300, tmp_path) is None


def test_messages_of_kafka_are_read_or_refused(tmp_path: Path):
    with KafkaMessages() as target:
        assert replay(target) == []
        assert explore_count(target, 1, 600, tmp_path) is None


def test_a_reader_that_believes_a_count_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(Reader, "_check_count", lambda *_: None)
    with KafkaMessages() as target:
        assert explore_count(target, 1, ENOUGH, tmp_path) is not None


def test_a_conversion_that_takes_null_for_empty_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    pieces = decode._pieces

    def without_nulls(data: Any, at: Any) -> Any:
        found, after = pieces(data, at)
        return found._replace(sizes=found.sizes.clip(0)), after

    monkeypatch.setattr(decode, "_pieces", without_nulls)
    with KafkaRecords() as target:
        assert explore_count(target, 1, ENOUGH, tmp_path) is not None


def test_seeds_are_sound_batches():
    for batch in seeds():
        if not parse_header(batch).is_compacted:
            validate_batch(batch, max_message_bytes=len(batch) + 10_000)


@pytest.mark.cluster
@pytest.mark.parametrize(("make", "count"), [(Brokers, 60), (Clients, 15), (KafkaBrokers, 40)])
def test_nodes_and_clients_survive_what_they_are_sent(
    make: Callable[[FuzzedCluster], Target], count: int, cluster: FuzzedCluster, tmp_path: Path
):
    with make(cluster) as target:
        assert replay(target) == []
        assert explore_count(target, 1, count, tmp_path) is None
        assert target.finish()


def test_every_route_is_asked():
    assert {"/v1/produce", "/internal/v1/fetch", "/internal/v1/brokers/register"} <= set(PATHS)
    assert set(BODIES) <= set(PATHS)
    assert {listener_of(path) for path in PATHS} == {"public", "internal", "controller"}
    assert CORPUS.is_dir()


def test_a_node_that_logs_an_internal_error_is_found(cluster: FuzzedCluster):
    cluster.require_sound()
    log = cluster.nodes.node("broker-1").log_path
    with log.open("a") as opened:
        opened.write("2026-01-02T03:04:06.000 ERROR raftlog: failed\n  | Traceback (most recent call last):\n")

    with pytest.raises(Finding, match="broker-1 had an internal error"):
        cluster.require_sound()
    cluster.require_sound()
