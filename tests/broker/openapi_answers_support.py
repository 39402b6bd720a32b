"""Requests whose answers are compared with the OpenAPI document."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import aiohttp
from broker_support import Reply
from openapi_support import faults, resolved

from raftlog.broker.openapi.document import document
from raftlog.wire import media, paths

DOCUMENT = document()
TOPIC, GROUP, TRANSACTION = "flights", "readers", "loader"


class Checked:
    """Sends requests, and compares requests and answers with the document."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url
        self.seen: dict[str, set[int]] = defaultdict(set)
        """The statuses of answers, by method and path of the operation."""
        self.named: dict[str, set[str]] = defaultdict(set)
        """The names of queries that were accepted, by operation."""

    async def __call__(
        self,
        method: str,
        path: str,
        expected: int,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        url: str = "",
        headers: Mapping[str, str] | None = None,
        **variables: Any,
    ) -> Reply:
        operation = DOCUMENT["paths"][path][method.lower()]
        sent = dict(headers or {})
        if "requestBody" in operation:
            (form,) = operation["requestBody"]["content"]
            sent.setdefault("Content-Type", form)
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            schema = operation["requestBody"]["content"][form]["schema"]
            is_json = form == media.JSON and expected < 400
            assert not is_json or list(faults(DOCUMENT, schema, body)) == [], (body, schema)
        else:
            data = None
        target = f"{url or self.url}{paths.fill(path, **variables)}"
        name, request = f"{method} {path}", {"params": query, "data": data, "headers": sent}
        while True:
            async with self._session.request(method, target, allow_redirects=False, **request) as answer:
                reply = Reply(answer.status, answer.headers, await answer.read())
            if reply.status != 503:
                break
            self._check(name, operation, reply)  # Such as a coordinator that still loads.
            await asyncio.sleep(0.05)
        assert reply.status == expected, (name, query, body, reply.status, reply.body[:600])
        self._check(name, operation, reply)
        self.seen[name].add(reply.status)
        if expected < 300:
            self.named[name] |= (query or {}).keys()
        return reply

    def _check(self, name: str, operation: Mapping[str, Any], reply: Reply) -> None:
        assert str(reply.status) in operation["responses"], (name, reply.status, reply.body[:300])
        response = resolved(DOCUMENT, operation["responses"][str(reply.status)])
        contents, form = response.get("content", {}), reply.headers.get("Content-Type", "").partition(";")[0]
        if not contents:
            assert reply.body == b""
            return
        assert form in contents, (name, form)
        if form == media.JSON:
            assert list(faults(DOCUMENT, contents[form]["schema"], reply.json)) == [], (name, reply.json)
        if reply.status >= 300:
            assert reply.code in operation["x-errors"] or reply.status == 307, (name, reply.code)
        for header, value in reply.headers.items():
            if header.startswith("Raftlog-") or header in ("Location", "Retry-After", "ETag", "Accept-Ranges"):
                assert header in response.get("headers", {}), (name, reply.status, header)
                schema = resolved(DOCUMENT, response["headers"][header])["schema"]
                plain = int(value) if schema["type"] == "integer" else value
                assert list(faults(DOCUMENT, schema, plain)) == [], (name, header, value)


async def leader_of(ask: Checked, topic: str, partition: int = 0) -> tuple[str, str]:
    """Return the URL of a partition's leader, once it has one, and that of another broker."""
    while True:
        found = (await ask("GET", paths.METADATA, 200, query={"topic": topic})).json
        (leader,) = (one["leader"] for one in found["topics"][0]["partitions"] if one["partition"] == partition)
        urls = {broker["broker_id"]: broker["url"] for broker in found["brokers"]}
        if leader in urls:
            return urls.pop(leader), next(iter(urls.values()))
