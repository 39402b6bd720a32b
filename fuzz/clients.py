"""The target of answers: clients get answers that no broker sends, and raise raftlog's errors, or continue."""

from __future__ import annotations

import asyncio
import gzip
import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

import aiohttp
import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fuzz import batches
from fuzz.cluster import FuzzedCluster
from fuzz.requests import heavy_json, plain
from fuzz.target import Finding
from raftlog.client import Admin, Consumer, Producer
from raftlog.errors import ErrorCode, RaftlogError

PATIENCE_S = 0.6
"""Clients without a useful answer retry: they are stopped after this long."""
LEAVING_S = 10.0
"""A cancelled client exits within this time, with any answer: it tries to leave its group for 3 s."""
MAX_ASKED = 60
"""Requests within that time: a client that sends more keeps a core busy."""
_BOMB = gzip.compress(bytes(64 << 20))
_STATUSES = (200, 204, 206, 301, 404, 421, 429, 500, 503, 999)


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    content: bytes
    fields: dict[str, str]


_NOTHING = _Answer(204, b"", {})


class _LyingProxy:
    """A proxy in front of the broker that changes its answers to some requests."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.lies: dict[int, list[Any]] = {}
        """By the number of the answer; later answers repeat the last one."""
        self.asked = 0
        self.paths: Counter[str] = Counter()
        self._longest: dict[str, _Answer] = {}
        """By path, the broker's longest honest answer: to a fetch, one with batches."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        lie = self.lies.get(min(self.asked, max(self.lies, default=0)))
        self.asked += 1
        self.paths[request.path] += 1
        if lie is not None and lie[0] == "stale" and request.path in self._longest:
            return _response(self._longest[request.path])  # At once: a broker would have waited for new records.
        answer = await self._asked(request)
        if len(answer.content) > len(self._longest.get(request.path, _NOTHING).content):
            self._longest[request.path] = answer
        return _response(answer if lie is None else _lied(lie, answer))

    def told(self, path: str) -> bytes:
        """Return the longest honest answer to requests of a path."""
        return self._longest.get(path, _NOTHING).content

    async def _asked(self, request: web.Request) -> _Answer:
        body = await request.read()
        headers = {name: request.headers[name] for name in ("Content-Type", "Accept") if name in request.headers}
        url = f"{self._target}{request.rel_url}"
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, url, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            return _Answer(answer.status, await answer.read(), {"Content-Type": answer.content_type})


def _response(answer: _Answer) -> web.Response:
    return web.Response(status=answer.status, body=answer.content, headers=answer.fields)


def _lied(lie: list[Any], honest: _Answer) -> _Answer:
    kind, detail = lie
    if kind == "status":
        return replace(honest, status=int(detail))
    if kind == "refusal":
        error = {"code": detail, "message": "no", "retriable": False, "details": {}}
        return replace(honest, status=409, content=orjson.dumps({"error": error}))
    if kind == "bomb":
        return replace(honest, content=_BOMB, fields={**honest.fields, "Content-Encoding": "gzip"})
    if kind == "body":
        return replace(honest, content=bytes.fromhex(detail))
    if kind == "bytes":
        return replace(honest, content=batches.changed(honest.content, detail))
    if kind == "json":
        return replace(honest, content=_with_another_value(honest.content, *detail))
    if kind == "near":
        return replace(honest, content=_with_another_value(honest.content, *detail, near=True))
    return honest


def _with_another_value(content: bytes, where: int, value: Any, *, near: bool = False) -> bytes:
    """Replace a value by another one, in JSON or in a frame's head.

    Args:
        near: add `value` to a number, which may then be another partition or epoch that exists.
    """
    size = int.from_bytes(content[:4], "little")
    is_frame = 0 < size <= len(content) - 4 and not content.startswith(b"{")
    try:
        plain_body = orjson.loads(content[4 : 4 + size] if is_frame else content)
    except orjson.JSONDecodeError:
        return content
    places = [(holder, key) for holder, key in _places(plain_body) if not near or type(holder[key]) is int]
    if places:
        holder, key = places[where % len(places)]
        holder[key] = holder[key] + value if near else value
    changed = orjson.dumps(plain_body)
    return len(changed).to_bytes(4, "little") + changed + content[4 + size :] if is_frame else changed


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)


class Clients:
    """The target: producers, consumers, groups, transactions and administration."""

    name = "clients"

    def __init__(self, cluster: FuzzedCluster) -> None:
        self._cluster = cluster
        self._judged = 0
        self._served = 0
        self._complaints: list[str] = []

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner()
        self._runner.__enter__()
        self._runner.get_loop().set_exception_handler(self._complain)
        self._logged = _Errors(self._complaints)
        logging.getLogger("raftlog").addHandler(self._logged)
        self._excepthook = threading.excepthook
        threading.excepthook = lambda failed: self._complaints.append(f"thread failed: {failed.exc_value!r}")
        self._topic = f"clients-{uuid.uuid4().hex}"
        self._runner.run(self._prepare())
        return self

    def __exit__(self, *_: object) -> None:
        threading.excepthook = self._excepthook
        logging.getLogger("raftlog").removeHandler(self._logged)
        self._runner.run(self._server.close())
        self._runner.__exit__(None, None, None)

    def inputs(self) -> SearchStrategy[bytes]:
        lies = st.one_of(
            st.tuples(st.just("json"), st.tuples(st.integers(0, 200), plain())),
            st.tuples(st.just("json"), st.tuples(st.integers(0, 200), plain())),
            st.tuples(st.just("near"), st.tuples(st.integers(0, 200), st.sampled_from([-1, 1]))),
            st.tuples(st.just("bytes"), st.lists(batches.changes(), min_size=1, max_size=3)),
            st.tuples(st.just("status"), st.sampled_from(_STATUSES)),
            st.tuples(st.just("body"), st.one_of(st.binary(max_size=50), heavy_json()).map(bytes.hex)),
            st.tuples(st.just("refusal"), st.sampled_from([code.value for code in ErrorCode])),
            st.just(("bomb", "")),
            st.just(("stale", "")),
        )
        number = st.integers(0, 8).map(str)
        told = st.dictionaries(number, lies, min_size=1, max_size=3)
        return st.builds(lambda work, lies: orjson.dumps([work, lies]), st.sampled_from(sorted(_WORK)), told)

    def judge(self, data: bytes) -> None:
        self._judged += 1
        work, lies = orjson.loads(data)
        self._proxy.lies = {int(number): lie for number, lie in lies.items()}
        self._proxy.asked = 0
        self._proxy.paths.clear()
        self._complaints.clear()
        busy, began = time.process_time(), time.monotonic()
        try:
            self._runner.run(self._try(_WORK[work]))
        except RaftlogError:
            pass
        except Exception as error:
            raise Finding(f"{work}: {type(error).__name__}: {error}") from error
        if self._complaints:
            raise Finding(f"{work}: {self._complaints[0]}")
        if (taken_s := time.monotonic() - began) > PATIENCE_S + LEAVING_S:
            raise Finding(f"{work}: was left after {PATIENCE_S} s, and took {taken_s:.1f} s")
        if self._proxy.asked > MAX_ASKED:
            ((path, count),) = self._proxy.paths.most_common(1)
            raise Finding(
                f"{work}: asked {self._proxy.asked} times within {PATIENCE_S} s, {count} of them {path}, "
                f"which is answered {self._proxy.told(path)!r:.500}"
            )
        if time.process_time() - busy > 1.5:
            raise Finding(f"{work}: took {time.process_time() - busy:.1f} s of the processor")

    def finish(self) -> str:
        self._cluster.require_sound()
        return f"{self._judged} conversations, {self._served} of them to the end"

    async def _prepare(self) -> None:
        url = self._cluster.nodes.bootstrap
        self._proxy = _LyingProxy(url)
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._proxy.handle)
        self._server = TestServer(app, host="127.0.0.1")
        await self._server.start_server()
        async with Admin(url) as admin:
            await admin.create_topic(self._topic, partitions=1, replication_factor=1)
            async with Producer(url) as producer:
                for number in range(3):
                    await producer.send(self._topic, b"value-%d" % number)

    async def _try(self, work: Callable[[str, dict[str, str], str], Coroutine[Any, Any, None]]) -> None:
        url = self._cluster.nodes.bootstrap
        dial = {url.removeprefix("http://"): f"127.0.0.1:{self._server.port}"}
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await work(url, dial, self._topic)
            self._served += 1

    def _complain(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._complaints.append(f"{context.get('message')}: {context.get('exception')!r}")


class _Errors(logging.Handler):
    """Collects the errors of the clients' background work."""

    def __init__(self, complaints: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._complaints = complaints

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and not isinstance(record.exc_info[1], RaftlogError):
            self._complaints.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


async def _read(url: str, dial: dict[str, str], topic: str) -> None:
    async with Consumer(url, topic, start="earliest", dial=dial, fetch_max_wait_ms=100) as consumer:
        for _ in range(3):
            await anext(consumer)


async def _read_on(url: str, dial: dict[str, str], topic: str) -> None:
    """Wait for records that never come, above the end of the log."""
    async with Consumer(url, topic, start="latest", dial=dial, fetch_max_wait_ms=100) as consumer:
        while True:
            await anext(consumer)


async def _read_arrow(url: str, dial: dict[str, str], topic: str) -> None:
    async with Consumer(url, topic, start="earliest", dial=dial, fetch_max_wait_ms=100) as consumer:
        await consumer.fetch_arrow()


async def _read_in_a_group(url: str, dial: dict[str, str], topic: str) -> None:
    async with Consumer(url, topic, group_id="fuzz", auto_offset_reset="earliest", dial=dial) as consumer:
        await anext(consumer)
        await consumer.commit()


async def _write(url: str, dial: dict[str, str], topic: str) -> None:
    async with Producer(url, dial=dial, close_timeout_ms=50) as producer:
        await producer.send(topic, b"value")


async def _write_in_a_transaction(url: str, dial: dict[str, str], topic: str) -> None:
    name = "fuzz"
    async with Producer(url, dial=dial, transactional_id=name, close_timeout_ms=50) as producer, producer.transaction():
        await producer.send(topic, b"value")


async def _administer(url: str, dial: dict[str, str], topic: str) -> None:
    async with Admin(url, dial=dial, timeout_ms=300) as admin:
        await admin.describe_topic(topic)
        await admin.list_offsets(topic)
        await admin.list_groups()
        await admin.log_dirs()
        await admin.describe_quorum()


_WORK = {
    "administer": _administer,
    "read": _read,
    "read arrow": _read_arrow,
    "read on": _read_on,
    "read in a group": _read_in_a_group,
    "write": _write,
    "write in a transaction": _write_in_a_transaction,
}
