"""The logs of a topic's replicas, as pages of the console get them."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from raftlog.broker.console import replicas as module
from raftlog.broker.console.replicas import topic_replicas
from raftlog.errors import UnreachableError
from raftlog.wire.admin import LogDir, LogDirsResponse, StoredReplica
from raftlog.wire.codec import encode_json


class Session:
    """Answers for broker 2; broker 3 is silent."""

    async def request(self, _method: str, address: str, _path: str, **_: object) -> Any:
        if address == "three":
            raise UnreachableError("it is down")
        stored = [
            StoredReplica(
                topic="t", partition=number, leader=True, size_bytes=10, log_start_offset=0, log_end_offset=number
            )
            for number in range(3)
        ]
        folder = LogDir(path="/data", total_bytes=1, usable_bytes=1, replicas=tuple(stored))
        return SimpleNamespace(body=encode_json(LogDirsResponse(broker_id=2, log_dirs=(folder,))))


async def test_answers_about_thousands_of_partitions_are_not_handled_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
):
    """10,000 partitions took 50 ms for each broker, and 67 ms to join."""
    threads = set[int]()

    def noting(function: Any) -> Any:
        def noted(*args: Any, **named: Any) -> Any:
            threads.add(threading.get_ident())
            return function(*args, **named)

        return noted

    for name in ("decode_json", "ConsoleReplica"):
        monkeypatch.setattr(module, name, noting(getattr(module, name)))
    brokers = {2: SimpleNamespace(public="two"), 3: SimpleNamespace(public="three")}
    context = SimpleNamespace(
        topic=lambda _: SimpleNamespace(partitions={number: SimpleNamespace(replicas=(2, 3)) for number in range(3)}),
        config=SimpleNamespace(node_id=1),
        image=SimpleNamespace(brokers=brokers),
        session=Session(),
        quotas=SimpleNamespace(node_header=dict),
    )
    found = await topic_replicas(cast("Any", context), "t")
    assert [(one.broker, one.partition, one.log_end_offset) for one in found.replicas] == [
        (2, 0, 0),
        (2, 1, 1),
        (2, 2, 2),
    ]
    assert found.silent == (3,)
    assert threads
    assert threading.get_ident() not in threads
