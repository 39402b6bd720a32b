"""Metadata that goes backwards, or is of another cluster."""

from __future__ import annotations

import asyncio

import pytest

from raftlog.client.connection import Connection
from raftlog.client.core.metadata_history import OLDER_S, MetadataHistory
from raftlog.errors import ConfigError, RetriableError
from raftlog.wire.metadata import ClientMetadata


def metadata(offset: int, cluster_id: str = "c") -> ClientMetadata:
    return ClientMetadata(cluster_id=cluster_id, metadata_offset=offset, feature_level=1, brokers=(), topics=())


def test_older_metadata_is_refused_until_no_broker_has_had_newer_one_for_a_while(caplog: pytest.LogCaptureFixture):
    history = MetadataHistory()
    assert history.takes(metadata(100))
    assert history.takes(metadata(100))
    assert not history.takes(metadata(5))
    for now_s in (10.0, 10.0 + OLDER_S - 1):
        with pytest.raises(RetriableError, match="all brokers have metadata of offset 7 at most, offset 100 was seen"):
            history.best_of([metadata(5), metadata(7)], now_s)
    assert history.best_of([metadata(5), metadata(7)], 10.0 + OLDER_S) == metadata(7)
    assert "restored" in caplog.text
    assert history.takes(metadata(8))


def test_newer_metadata_ends_the_wait():
    history = MetadataHistory()
    history.takes(metadata(100))
    with pytest.raises(RetriableError):
        history.best_of([metadata(5)], 10.0)
    assert history.takes(metadata(101))
    with pytest.raises(RetriableError):
        history.best_of([metadata(5)], 11.0 + OLDER_S)


def test_another_cluster_is_an_error_unless_brokers_of_this_one_answer():
    history = MetadataHistory()
    history.takes(metadata(100))
    assert not history.takes(metadata(500, "d")), "a broker of another cluster has this one's old port, say"
    with pytest.raises(RetriableError):
        history.best_of([metadata(500, "d"), metadata(99)], 10.0)
    with pytest.raises(ConfigError, match="belong to cluster d now, and belonged to cluster c when this client began"):
        history.best_of([metadata(500, "d")], 10.0)


async def test_brokers_with_older_metadata_are_asked_at_intervals(monkeypatch: pytest.MonkeyPatch):
    connection, asked = Connection("http://127.0.0.1:1", timeout_ms=1_000), list[str]()

    async def ask(self: Connection, path: str) -> ClientMetadata:
        asked.append(path)
        return metadata(100 if len(asked) == 1 else 5)

    monkeypatch.setattr(Connection, "_metadata", ask)
    await connection.refresh(["t"])
    connection.forget_leader_of(["t"])
    began = asyncio.get_running_loop().time()
    with pytest.raises(RetriableError, match="offset 5 at most, offset 100 was seen before"):
        await connection.refresh(["t"])
    assert len(asked) == 3
    assert asyncio.get_running_loop().time() - began >= 0.01
    await connection.close()
