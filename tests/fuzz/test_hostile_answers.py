"""What clients do with answers that no broker gives: each of these ended, bloated or busied one once."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from fuzz.clients import Clients
from fuzz.cluster import FuzzedCluster

DEEP = b'{"error":' + b"[" * 900 + b"]" * 900 + b"}"


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with FuzzedCluster() as cluster, Clients(cluster) as target:
        yield target


@pytest.mark.cluster
@pytest.mark.parametrize("work", ["administer", "read", "read on", "read arrow", "read in a group", "write"])
@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(["bomb", ""], id="gzip bomb"),
        pytest.param(["stale", ""], id="the same again and again"),
        pytest.param(["body", (b"[" * 990 + b"]" * 990).hex()], id="deep JSON"),
        pytest.param(["body", DEEP.hex()], id="an error with deep JSON"),
        pytest.param(["body", b'{"error":{"code":["x"],"message":{"a":1},"details":3}}'.hex()], id="an odd error"),
        pytest.param(["body", b"\xff\xff\xff\xff".hex()], id="a frame that is cut"),
        pytest.param(["body", ""], id="nothing"),
        pytest.param(["status", 503], id="not now"),
        *[pytest.param(["json", [place, 2]], id=f"another value at {place}") for place in (0, 4, 5, 10)],
        pytest.param(["refusal", "FENCED_MEMBER_EPOCH"], id="join anew"),
        pytest.param(["refusal", "NOT_LEADER_OR_FOLLOWER"], id="ask another"),
        pytest.param(["status", 301], id="elsewhere"),
    ],
)
def test_clients_raise_or_go_on(work: str, lie: list[Any], clients: Clients):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    clients.judge(orjson.dumps([work, {"0": lie}]))
    clients.judge(orjson.dumps([work, {"2": lie}]))

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 60_000  # KiB; the bomb unpacks to 64 MiB.
