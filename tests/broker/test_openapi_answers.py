"""Real answers of every route are as the OpenAPI document says: status, content type, header fields, JSON."""

from __future__ import annotations

import asyncio
import gzip
import re
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from openapi_answers_support import GROUP, TOPIC, TRANSACTION, Checked
from openapi_cluster_support import (
    answers_of_security,
    answers_of_the_cluster,
    answers_of_the_console,
    answers_of_the_node,
)
from openapi_coordination_support import answers_of_groups, answers_of_transactions
from openapi_topics_support import answers_of_records, answers_of_topics

from raftlog.broker.openapi.operations import OPERATIONS
from raftlog.cli.local_cluster import LocalCluster
from raftlog.wire import paths

pytestmark = pytest.mark.cluster
LAX = {"GET /livez", "GET /readyz", f"OPTIONS {paths.TOPIC_RECORDS}", f"OPTIONS {paths.RECORDS}"}
"""Routes that ignore unknown names of a query: supervisors and browsers send them."""
SETTINGS = {
    "offsets_topic_num_partitions": 1,
    "offsets_topic_replication_factor": 1,
    "transaction_state_log_num_partitions": 1,
    "transaction_state_log_replication_factor": 1,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder: Path = tmp_path_factory.mktemp("openapi") / "cluster"
    folder.mkdir()
    (folder / "cluster.key").write_text("k" * 40)
    extra = {"*": {"broker": SETTINGS, "security": {"cluster_key_file": "../cluster.key"}}}
    with LocalCluster(folder, controllers=1, brokers=2, port=0, extra=extra) as running:
        yield running


@pytest.fixture
async def ask(cluster: LocalCluster) -> AsyncIterator[Checked]:
    async with aiohttp.ClientSession(headers={"Accept-Encoding": "identity"}) as session:
        yield Checked(session, cluster.public_url("broker-1"))


async def test_real_answers_are_as_documented(cluster: LocalCluster, ask: Checked):
    await unregisters(cluster, ask)
    await answers_of_topics(ask)
    await answers_of_records(ask)
    await answers_of_groups(ask)
    await answers_of_transactions(ask)
    await answers_of_the_cluster(ask)
    await answers_of_security(ask)
    await answers_of_the_node(ask)
    await answers_of_the_console(ask)
    await refuses_unknown_names(ask)

    assert {operation.name for operation in OPERATIONS} == ask.seen.keys()
    for operation in OPERATIONS:
        endless = operation.path == paths.CONSOLE_EVENTS  # See test_console_http.py.
        assert endless or min(ask.seen[operation.name]) < 300, operation.name
        assert max(ask.seen[operation.name]) >= 400, operation.name
        assert not operation.redirects or operation.elsewhere in ask.seen[operation.name], operation.name
        assert {one.name for one in operation.query} == ask.named[operation.name], operation.name


async def unregisters(cluster: LocalCluster, ask: Checked) -> None:
    """While broker 2 is stopped and has no replicas."""
    await ask("DELETE", paths.BROKER, 400, broker=2)
    cluster.kill("broker-2", signal.SIGTERM)
    while not (await ask("GET", paths.BROKERS, 200)).json["brokers"][1]["fenced"]:
        await asyncio.sleep(0.1)
    await ask("DELETE", paths.BROKER, 200, broker=2)
    await ask("DELETE", paths.BROKER, 404, broker="one")
    await ask("GET", paths.LOG_DIRS, 404, broker=2)
    cluster.start_node("broker-2")
    cluster.wait_ready()


async def refuses_unknown_names(ask: Checked) -> None:
    variables: dict[str, Any] = {"topic": TOPIC, "partition": 0, "broker": 1, "group": GROUP, "user": "someone"}
    variables |= {"transactional_id": TRANSACTION, "set_id": "set", "kind": "group", "key": GROUP, "file": "app.js"}
    for operation in OPERATIONS:
        if operation.name in LAX:
            continue
        named = {name: variables[name] for name in re.findall(r"{(\w+)}", operation.path)}
        refused = await ask(operation.method, operation.path, 400, query={"no_such_name": 1}, body={}, **named)
        assert refused.code == "INVALID_REQUEST"
        assert "no_such_name" in refused.message
        names = ", ".join(sorted(one.name for one in operation.query)) or "none"
        assert refused.message.endswith(f"known names are {names}") or operation.path == paths.METRICS, refused.message


async def test_the_document_is_cached_by_its_readers(cluster: LocalCluster):
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        url = f"{cluster.public_url('broker-2')}{paths.OPENAPI}"
        found = {}
        for coding in ("identity", "gzip"):
            async with session.get(url, headers={"Accept-Encoding": coding}) as answer:
                found[coding] = body = await answer.read()
                etag = answer.headers["ETag"]
                assert (answer.status, answer.headers["Vary"]) == (200, "Accept-Encoding")
                assert answer.headers.get("Content-Encoding", "identity") == coding
            for known, status in ((etag, 304), (f'"other", {etag}', 304), (f"W/{etag}", 304), ("*", 304), ('"x"', 200)):
                async with session.get(url, headers={"Accept-Encoding": coding, "If-None-Match": known}) as answer:
                    assert (answer.status, answer.headers["ETag"]) == (status, etag), known
                    assert await answer.read() == (b"" if status == 304 else body)
            async with session.head(url, headers={"Accept-Encoding": coding}) as answer:
                assert (answer.status, await answer.read()) == (200, b"")
                assert int(answer.headers["Content-Length"]) == len(body)
        assert gzip.decompress(found["gzip"]) == found["identity"]
        assert len(found["gzip"]) < len(found["identity"]) // 4


async def test_a_controller_does_not_serve_the_document(cluster: LocalCluster):
    async with aiohttp.ClientSession() as session:
        for node in ("controller-101", "broker-1"):
            async with session.get(f"http://{cluster.node(node).internal}{paths.OPENAPI}") as answer:
                assert answer.status == 404
