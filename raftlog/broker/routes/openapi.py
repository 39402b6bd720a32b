"""`GET /v1/openapi.json`: the document of this listener."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from dataclasses import dataclass
from typing import Self

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import check_query
from raftlog.serving.workers import in_worker
from raftlog.wire import media, paths
from raftlog.wire.codec import encode_json
from raftlog.wire.negotiation import content_coding


class OpenapiRoutes:
    """The handler of the document, which is made in a worker thread when a request first needs it."""

    def __init__(self, _: BrokerContext) -> None:
        self._page: _Page | None = None
        self._making = asyncio.Lock()

    def add_to(self, app: web.Application) -> None:
        """Register the path."""
        app.router.add_get(paths.OPENAPI, self.document)

    async def document(self, request: web.Request) -> web.Response:
        """Return the document, or 304 if the caller has it."""
        check_query(request)
        async with self._making:
            if self._page is None:
                self._page = await in_worker(_Page.make)
        page = self._page
        zipped = content_coding(request.headers.get("Accept-Encoding", ""), ("gzip",)) is not None
        etag = page.etag_zipped if zipped else page.etag
        headers = {"ETag": etag, "Vary": "Accept-Encoding", "Cache-Control": "no-cache"}
        if _names(request.headers.get("If-None-Match", ""), etag):
            return web.Response(status=304, headers=headers)
        if zipped:
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=page.zipped if zipped else page.plain, content_type=media.JSON, headers=headers)


def _names(if_none_match: str, etag: str) -> bool:
    """Return whether an `If-None-Match` names an ETag, weakly compared (RFC 9110, 13.1.2)."""
    listed = [one.strip().removeprefix("W/") for one in if_none_match.split(",")]
    return etag in listed or listed == ["*"]


@dataclass(frozen=True, slots=True)
class _Page:
    plain: bytes
    zipped: bytes
    etag: str
    etag_zipped: str

    @classmethod
    def make(cls) -> Self:
        from raftlog.broker.openapi.document import document  # noqa: PLC0415  (few brokers are asked for it)

        plain = encode_json(document())
        name = hashlib.sha256(plain).hexdigest()[:32]
        return cls(plain, gzip.compress(plain, mtime=0), f'"{name}"', f'"{name}-gzip"')
