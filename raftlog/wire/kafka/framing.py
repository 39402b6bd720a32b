"""Frames and headers of Kafka's protocol.

A frame is a length of 4 bytes and that many bytes: a header, then a message. Positions in errors count from the byte
after the length.

Source: Kafka's protocol guide, "Request Header" and "Response Header"; KIP-482, KIP-511.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from raftlog.errors import ErrorCode
from raftlog.wire.kafka.api_keys import (
    API_VERSIONS,
    APIS,
    CONTROLLED_SHUTDOWN,
    Api,
    find,
    request_codec,
    response_codec,
)
from raftlog.wire.kafka.errors import KafkaProtocolError, shown
from raftlog.wire.kafka.reader import MAX_ELEMENTS, Buffer, Reader
from raftlog.wire.kafka.writer import Writer

LENGTH_BYTES: Final = 4
MAX_FRAME_BYTES: Final = (128 << 20) - 1
"""No limit may be above it: the first byte of a longer frame could be one of HTTP or TLS."""
_FIRST_BYTES = 8
_LENGTH = struct.Struct(">i")
_FIXED = struct.Struct(">hhi")
_CORRELATION = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """The header of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    """Comes back in the response."""
    client_id: str | None

    @property
    def is_unknown_api_versions(self) -> bool:
        """Whether it is an ApiVersions request of a version that is not in the table.

        The answer is version 0 with UNSUPPORTED_VERSION and the table, and its body is not read (KIP-511).
        """
        api = APIS[API_VERSIONS]
        return self.api_key == API_VERSIONS and not api.first <= self.api_version <= api.last


def is_kafka(first: int) -> bool:
    """Return whether a connection's first byte begins a frame. HTTP begins with a letter, TLS with 0x16."""
    return first < _FIRST_BYTES


def frame_length(prefix: Buffer, *, max_bytes: int = MAX_FRAME_BYTES) -> int:
    """Return how many bytes of a frame follow its first four.

    Args:
        prefix: at least 4 bytes.
        max_bytes: limit of the length.

    Raises:
        KafkaProtocolError: MESSAGE_TOO_LARGE: above the limit; INVALID_REQUEST: negative, or too short for a header.
    """
    (length,) = _LENGTH.unpack_from(prefix)
    if length > min(max_bytes, MAX_FRAME_BYTES):
        raise KafkaProtocolError(
            f"expected a frame of at most {min(max_bytes, MAX_FRAME_BYTES)} bytes, received the length {length}",
            code=ErrorCode.MESSAGE_TOO_LARGE,
        )
    if length < LENGTH_BYTES:
        raise KafkaProtocolError(f"a frame has at least {LENGTH_BYTES} bytes, received {shown(prefix[:LENGTH_BYTES])}")
    return int(length)


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Return a request's header, and where the message begins in the frame.

    An API or a version that is not in the table is no error here. Its header is read as version 1, which all others
    begin with; its message cannot be decoded.

    Raises:
        KafkaProtocolError: the frame is too short, or the header is malformed.
    """
    reader = Reader("request header", frame)
    key, version, correlation = reader.take(_FIXED, "RequestHeader.api_key,api_version,correlation_id")
    if (key, version) == (CONTROLLED_SHUTDOWN, 0):
        return RequestHeader(key, version, correlation, None), reader.at
    client_id = reader.nullable_string("RequestHeader.client_id")
    header = RequestHeader(key, version, correlation, client_id)
    api = APIS.get(key)
    if api is not None and api.is_flexible(version) and not header.is_unknown_api_versions:
        reader.skip_tags("RequestHeader")
    return header, reader.at


def decode_request(header: RequestHeader, frame: Buffer, at: int, *, max_elements: int = MAX_ELEMENTS) -> Any:
    """Return the message of a request, an object of the API's module.

    Args:
        at: where the message begins: what `decode_request_header` returned.
        max_elements: limit of array elements and tagged fields; an event loop passes `reader.LOOP_ELEMENTS`.

    Raises:
        KafkaProtocolError: UNSUPPORTED_VERSION: not in the table; otherwise malformed.
        TooManyElementsError: more elements than `max_elements`: read it again in a worker thread, with `MAX_ELEMENTS`.
    """
    return request_codec(header.api_key).decode(header.api_version, frame, at, max_elements=max_elements)


def encode_request(header: RequestHeader, message: Any) -> list[Buffer]:
    """Return the buffers of a request's frame, to be sent in order.

    Raises:
        KafkaProtocolError: the message cannot be encoded in this version.
    """
    api = find(header.api_key)
    parts = request_codec(header.api_key).encode(header.api_version, message)
    writer = Writer("request header")
    writer.add(_FIXED.pack(header.api_key, header.api_version, header.correlation_id))
    writer.nullable_string(header.client_id, "RequestHeader.client_id")
    if api.is_flexible(header.api_version):
        writer.add(b"\0")
    return _framed(b"".join(writer.parts()), parts)


def encode_response(header: RequestHeader, message: Any) -> list[Buffer]:
    """Return the buffers of the frame that answers a request, to be sent in order. Large records are not copied.

    A response to an ApiVersions request of an unknown version is encoded as version 0.

    Raises:
        KafkaProtocolError: the message cannot be encoded in this version.
    """
    version = 0 if header.is_unknown_api_versions else header.api_version
    parts = response_codec(header.api_key).encode(version, message)
    tags = b"\0" * find(header.api_key).response_header_version(version)
    return _framed(_CORRELATION.pack(header.correlation_id) + tags, parts)


def decode_response(
    api: Api, version: int, frame: Buffer, *, max_elements: int = MAX_ELEMENTS, ends: bool = False
) -> tuple[int, Any]:
    """Return the correlation id and the message of a response.

    Args:
        ends: bytes after the message are an error.

    Raises:
        KafkaProtocolError: malformed.
    """
    reader = Reader("response header", frame)
    (correlation,) = reader.take(_CORRELATION, "ResponseHeader.correlation_id")
    if api.response_header_version(version):
        reader.skip_tags("ResponseHeader")
    codec = response_codec(api.key)
    return correlation, codec.decode(version, frame, reader.at, max_elements=max_elements, ends=ends)


def _framed(head: bytes, parts: list[Buffer]) -> list[Buffer]:
    """Put the length and the header before a message; small buffers are joined."""
    length = len(head) + sum(map(len, parts))
    if length > MAX_FRAME_BYTES:
        raise KafkaProtocolError(
            f"expected a frame of at most {MAX_FRAME_BYTES} bytes, made one of {length}",
            code=ErrorCode.MESSAGE_TOO_LARGE,
        )
    head = _LENGTH.pack(length) + head
    return [head + parts[0], *parts[1:]] if parts else [head]
