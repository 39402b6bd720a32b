"""A real browser: pages of other sites reach a node through it, and change and read nothing there."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from broker_support import http_to

from raftlog import Admin
from raftlog.cli.local_cluster import LocalCluster

PAGE = """<!doctype html><script>
const broker = %(broker)s, topic = %(topic)s, form = {"Content-Type": "application/x-www-form-urlencoded"};
const ask = (path, body) => fetch(broker + path, {method: "POST", mode: "no-cors", headers: form, body});
async function attack() {
  const answers = await Promise.all([
    ask("/v1/topics", JSON.stringify({topic: topic + "-x", partitions: 1})),
    ask(`/v1/topics/${topic}/records`, JSON.stringify({records: [{value: "forged"}]})),
    ask(`/v1/topics/${topic}/partitions/0/delete-records`, JSON.stringify({before_offset: 1})),
    ask("/v1/acls", JSON.stringify({acls: []})),
  ]);
  const sent = navigator.sendBeacon(broker + "/v1/topics", JSON.stringify({topic: topic + "-beacon", partitions: 1}));
  const read = await fetch(`${broker}/v1/topics`).then(() => "read", () => "refused");
  await fetch("/done", {method: "POST", body: JSON.stringify({kinds: answers.map(a => a.type), sent, read})});
}
attack();
</script>"""


@asynccontextmanager
async def browser_at(url: str, profile: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Open a page in Chromium without a window; end it with the block."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program, "no Chromium: run scripts/install-browser.sh"
    quiet = ["background-networking", "component-update", "sync", "gpu", "quic", "dev-shm-usage"]
    process = await asyncio.create_subprocess_exec(
        program,
        "--headless",
        "--no-sandbox",
        "--no-first-run",
        *(f"--disable-{what}" for what in quiet),
        f"--user-data-dir={profile}",
        *options,
        url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@asynccontextmanager
async def site(page: str) -> AsyncIterator[tuple[str, asyncio.Future[Any]]]:
    """Serve one page from a site of its own; what the page says at its end is the future's result."""
    said: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def show(_: web.Request) -> web.Response:
        return web.Response(text=page, content_type="text/html")

    async def hear(request: web.Request) -> web.Response:
        said.set_result(orjson.loads(await request.read()))
        return web.Response()

    app = web.Application()
    app.add_routes([web.get("/", show), web.post("/done", hear)])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        listener = web.TCPSite(runner, "127.0.0.1", 0)
        await listener.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/", said
    finally:
        await runner.cleanup()


@pytest.mark.cluster
async def test_a_page_of_another_site_changes_and_reads_nothing(
    shared_cluster: LocalCluster, topic_name: str, tmp_path: Path
):
    broker = shared_cluster.node("broker-1").public
    assert broker is not None
    target = f"http://localhost:{broker.port}"
    async with http_to(f"http://{broker}") as http, Admin(shared_cluster.bootstrap) as admin:
        await http.create(topic_name, replication_factor=3)
        assert (await http.produce(topic_name, "kept")).status == 200
        page = PAGE % {"broker": orjson.dumps(target).decode(), "topic": orjson.dumps(topic_name).decode()}
        async with site(page) as (url, said), browser_at(url, tmp_path):
            # The browser lets the page ask, and hides from it what the node says.
            assert await said == {"kinds": ["opaque"] * 4, "sent": True, "read": "refused"}
        names = {topic.topic for topic in await admin.list_topics()}
        assert {name for name in names if name.startswith(topic_name)} == {topic_name}
        assert await http.end(topic_name) == 1
        assert (await admin.list_offsets(topic_name, at="earliest"))[0].offset == 0


@pytest.mark.cluster
@pytest.mark.parametrize(("host", "served"), [("127.0.0.1", True), ("localhost", True), ("rebound.example", False)])
async def test_a_strange_name_that_points_at_a_node_is_refused(
    shared_cluster: LocalCluster, tmp_path: Path, host: str, served: bool, topic_name: str
):
    broker = shared_cluster.node("broker-1").public
    assert broker is not None
    async with http_to(f"http://{broker}") as http:
        await http.create(topic_name)
    points = "--host-resolver-rules=MAP rebound.example 127.0.0.1"
    async with browser_at(f"http://{host}:{broker.port}/v1/topics", tmp_path, points, "--dump-dom") as process:
        assert process.stdout is not None
        shown = (await process.stdout.read()).decode()
    assert (topic_name in shown, "FOREIGN_ORIGIN" in shown) == (served, not served), shown
