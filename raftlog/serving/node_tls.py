"""The TLS of one node: contexts of its listeners and of what it dials, loaded again when their files change."""

from __future__ import annotations

import asyncio
from asyncio import sslproto
from functools import partial
from typing import Literal

from raftlog.config import TlsConfig
from raftlog.runtime import Tasks
from raftlog.serving.tls_listener import ListenerTls
from raftlog.tls import LOOK_EVERY_S, ClientAuth, TlsContext, TlsFiles, client_context, server_context

BUFFER_BYTES = 64 << 10
Name = Literal["public", "internal", "quorum"]


class NodeTls:
    """The TLS of one node; without a section `[tls]` all of it is None.

    Raises:
        ConfigError: a file cannot be used.
    """

    def __init__(self, config: TlsConfig) -> None:
        # asyncio's buffer for received bytes, one for each connection: with its 256 KiB, 10,000 connections take 3 GB.
        sslproto.SSLProtocol.max_size = BUFFER_BYTES
        self._config = config
        self._files = TlsFiles(cert_file=config.cert_file, key_file=config.key_file, ca_file=config.ca_file)
        self._contexts: list[TlsContext] = []
        self._listeners = {name: self._listener(name) for name in ("public", "internal", "quorum")}
        self.client: TlsContext | None = None
        """With which this node dials others."""
        if config.ca_file or config.cert_file:
            self.client = TlsContext(self._files, client_context)
            self._contexts.append(self.client)
        self._tasks = Tasks("TLS files")

    def listener(self, name: Name) -> ListenerTls | None:
        """Return the TLS of a listener; None: it has none."""
        return self._listeners[name]

    def start(self) -> None:
        """Watch the files."""
        if self._contexts:
            self._tasks.keep(self._watch, name="watch")

    async def close(self) -> None:
        """Stop watching."""
        await self._tasks.close()

    async def reload(self) -> None:
        """Load files that have changed."""
        for context in self._contexts:
            await asyncio.to_thread(context.reload)

    def _listener(self, name: str) -> ListenerTls | None:
        mode = getattr(self._config, name)
        if mode == "off":
            return None
        client_auth: ClientAuth = self._config.client_auth if name == "public" else self._config.node_auth
        context = TlsContext(self._files, partial(server_context, client_auth=client_auth))
        self._contexts.append(context)
        return ListenerTls(context, is_required=mode == "required")

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.reload()
