"""The Raft transport between controllers: authenticated, ordered, bounded frames over TCP.

- Both sides prove that they know the cluster's key: HMAC-SHA256 over both nonces, both names and the cluster's id.
- Each direction has its own key, and each frame a MAC over its number. So a frame cannot be forged, replayed, reordered
  or moved to another connection.
- Nothing is decoded before it is authenticated. Contents are encrypted if the quorum's listener has TLS.

    hello = u16 length | name | 16-byte nonce      proof = 32-byte MAC      frame = u32 length | 16-byte MAC | message

Only the voter with the greater name dials, so there is one connection for each pair.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import ssl
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pysyncobj.node import Node
from pysyncobj.transport import Transport

from raftlog.metadata_quorum.raft.codec import MessageFormatError, decode, encode
from raftlog.model import Address
from raftlog.runtime import Tasks
from raftlog.serving.tls_listener import ListenerTls, TlsServer
from raftlog.tls import TlsContext, explain

_log = logging.getLogger(__name__)
MAX_FRAME_BYTES = 64 << 20
MAX_QUEUED_BYTES = 64 << 20
"""A peer that does not read is disconnected at this limit, and catches up on its next connection."""
_MAX_NAME = 256
_NONCE_BYTES = 16
_MAC_BYTES = 16
_RETRY_S = 0.1
_IDLE_S = 2.0
"""A connection silent for this long is closed: heartbeats are sent many times a second."""
_LENGTH = struct.Struct("<I")
_NUMBERED = struct.Struct("<QI")


@dataclass(frozen=True, slots=True)
class QuorumTls:
    """The TLS of a voter, as server and as client."""

    listener: ListenerTls
    client: TlsContext


class AuthenticationError(ConnectionError):
    """The peer is not a voter of this cluster, or a frame was altered."""


class _Peer:
    """The sending half of one authenticated connection."""

    def __init__(self, writer: asyncio.StreamWriter, key: bytes) -> None:
        self.writer = writer
        self._key = key
        self._number = 0

    def send(self, message: bytes) -> bool:
        if self.writer.transport.get_write_buffer_size() > MAX_QUEUED_BYTES:
            return False
        self.writer.write(_LENGTH.pack(len(message)) + _mac(self._key, self._number, message) + message)
        self._number += 1
        return True


def transport_key(quorum_key: bytes, cluster_id: str) -> bytes:
    """Return the key of a cluster's connections: voters of another cluster with the same quorum key are refused."""
    return hmac.digest(quorum_key, b"raftlog quorum " + cluster_id.encode(), "sha256")


class RaftTransport(Transport):  # type: ignore[misc]
    """PySyncObj's transport interface over authenticated connections.

    Args:
        names: PySyncObj's node ids: the quorum addresses, as text.
        dial: replaces addresses when dialling.
        key: of this cluster's connections; see `transport_key`.
        wake: called after each event, so that the engine ticks at once.
        tls: None: connections are plain.
    """

    def __init__(
        self,
        *,
        name: str,
        names: list[str],
        listen: Address,
        key: bytes,
        dial: Mapping[str, str],
        wake: Callable[[], None],
        tls: QuorumTls | None = None,
    ) -> None:
        super().__init__(None, None, None)
        self._name = name
        self._nodes = {other: Node(other) for other in names if other != name}
        self._listen = listen
        self._key = key
        self._dial = dial
        self._wake = wake
        self._tls = tls
        self._peers: dict[str, _Peer] = {}
        self._tasks = Tasks(f"quorum {name}")
        self._server: asyncio.Server | TlsServer | None = None
        self._closed = False

    @property
    def nodes(self) -> list[Node]:
        """The other voters, as PySyncObj knows them."""
        return list(self._nodes.values())

    async def start(self) -> None:
        """Listen, and dial the voters with smaller names.

        Raises:
            OSError: the address is in use.
        """
        if self._tls is None:
            self._server = await asyncio.start_server(self._accept, self._listen.host, self._listen.port)
        else:
            self._server = TlsServer(self._protocol, self._tls.listener, name="quorum")
            await self._server.start(self._listen)
        for other in self._nodes:
            if self._name > other:
                self._tasks.spawn(self._keep_connected(other), name=f"dial {other}")

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        if self._server is not None:
            self._server.close()
        for peer in self._peers.values():
            peer.writer.transport.abort()
        await self._tasks.close()

    def send(self, node: Node, message: dict[str, object]) -> bool:
        """Queue one message; return False without a connection, or if too much is queued on it."""
        peer = self._peers.get(node.id)
        if peer is None:
            return False
        if not peer.send(encode(message)):
            self._drop(node.id, peer)
            return False
        return True

    @property
    def ready(self) -> bool:
        return True

    async def _keep_connected(self, other: str) -> None:
        while True:
            try:
                async with asyncio.timeout(_IDLE_S):
                    reader, writer = await self._open(other)
                await self._converse(reader, writer, dialled=other)
            except (OSError, TimeoutError) as error:
                _log.debug("no connection to %s: %s", other, error)
            await asyncio.sleep(_RETRY_S)

    async def _open(self, other: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a voter: with TLS if this node has it, and without if TLS is optional and the peer has none."""
        address = Address.parse(self._dial.get(other, other))
        if self._tls is not None:
            context, name = self._tls.client.current, Address.parse(other).host
            try:
                return await asyncio.open_connection(address.host, address.port, ssl=context, server_hostname=name)
            except ConnectionRefusedError:
                raise
            except (ssl.SSLCertVerificationError, OSError) as error:
                if self._tls.listener.is_required or isinstance(error, ssl.SSLCertVerificationError):
                    _log.warning("no TLS connection to voter %s: %s", other, explain(error) or error)
                    raise
        return await asyncio.open_connection(address.host, address.port)

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._accept)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closed:
            writer.transport.abort()
            return
        task = self._tasks.spawn(self._converse(reader, writer, dialled=None), name="accepted connection")
        task.add_done_callback(lambda _: writer.transport.abort())  # A task cancelled before it runs has no `finally`.

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, dialled: str | None
    ) -> None:
        name, peer = "", None
        try:
            async with asyncio.timeout(_IDLE_S):
                name, sending_key, receiving_key = await self._authenticate(reader, writer, dialled)
            peer = _Peer(writer, sending_key)
            if (old := self._peers.get(name)) is not None:
                self._drop(name, old)
            self._peers[name] = peer
            self._onNodeConnected(self._nodes[name])
            self._wake()
            await self._receive(reader, name, peer, receiving_key)
        except AuthenticationError as error:
            _log.warning("refused a connection: %s", error)
        except (OSError, asyncio.IncompleteReadError, TimeoutError, MessageFormatError) as error:
            _log.debug("connection to %s closed: %r", name or "an unauthenticated peer", error)
        except Exception:  # noqa: BLE001
            # A voter of another version, or a bug. The peer connects again.
            _log.exception("cannot handle a message from %s; closing the connection", name)
        finally:
            if peer is not None and self._peers.get(name) is peer:
                self._drop(name, peer)
            writer.transport.abort()

    async def _authenticate(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, dialled: str | None
    ) -> tuple[str, bytes, bytes]:
        """Authenticate both sides; return the peer's name, the sending key and the receiving key."""
        nonce = os.urandom(_NONCE_BYTES)
        writer.write(struct.pack("<H", len(self._name)) + self._name.encode() + nonce)
        (length,) = struct.unpack("<H", await reader.readexactly(2))
        if length > _MAX_NAME:
            raise AuthenticationError(f"name: expected at most {_MAX_NAME} bytes, received {length}")
        name = (await reader.readexactly(length)).decode("utf-8", "replace")
        their_nonce = await reader.readexactly(_NONCE_BYTES)
        if name not in self._nodes or dialled not in (None, name) or (dialled is None and name < self._name):
            raise AuthenticationError(f"{name!r} is not a voter that may connect here")
        first, second = ((self._name, nonce), (name, their_nonce))
        if dialled is None:
            first, second = second, first
        session = b"|".join([first[0].encode(), second[0].encode(), first[1] + second[1]])
        dialler_key = hmac.digest(self._key, b"dialler|" + session, "sha256")
        acceptor_key = hmac.digest(self._key, b"acceptor|" + session, "sha256")
        mine, theirs = (dialler_key, acceptor_key) if dialled else (acceptor_key, dialler_key)
        writer.write(hmac.digest(mine, b"proof", "sha256"))
        if not hmac.compare_digest(await reader.readexactly(32), hmac.digest(theirs, b"proof", "sha256")):
            raise AuthenticationError(f"{name} has another quorum key, or belongs to another cluster")
        return name, mine, theirs

    async def _receive(self, reader: asyncio.StreamReader, name: str, peer: _Peer, key: bytes) -> None:
        number = 0
        while True:
            async with asyncio.timeout(_IDLE_S):
                head = await reader.readexactly(_LENGTH.size + _MAC_BYTES)
            (length,) = _LENGTH.unpack_from(head)
            if length > MAX_FRAME_BYTES:
                raise AuthenticationError(f"{name} announced a frame of {length} bytes")
            async with asyncio.timeout(4 * _IDLE_S):
                message = await reader.readexactly(length)
            if not hmac.compare_digest(head[_LENGTH.size :], _mac(key, number, message)):
                raise AuthenticationError(f"a frame from {name} was altered")
            number += 1
            if self._peers.get(name) is not peer:
                return
            self._onMessageReceived(self._nodes[name], decode(message))
            self._wake()

    def _drop(self, name: str, peer: _Peer) -> None:
        del self._peers[name]
        peer.writer.transport.abort()
        self._onNodeDisconnected(self._nodes[name])


def _mac(key: bytes, number: int, message: bytes) -> bytes:
    return hmac.digest(key, _NUMBERED.pack(number, len(message)) + message, "sha256")[:_MAC_BYTES]
