"""The error of everything that is wrong with a frame of Kafka's protocol."""

from __future__ import annotations

from raftlog.errors import InvalidRequestError

_SHOWN_BYTES = 32


class KafkaProtocolError(InvalidRequestError):
    """A frame, a header or a message does not follow Kafka's protocol, or a message cannot be encoded.

    Its text names the message, the field and the position in the frame. `code` is UNSUPPORTED_VERSION for an API or a
    version that is not in the table, MESSAGE_TOO_LARGE for a frame above the limit, otherwise INVALID_REQUEST. After
    one, the bytes that follow on the connection have no meaning: close it.
    """


class TooManyElementsError(KafkaProtocolError):
    """A message has more array elements and tagged fields than the caller's limit; a higher limit may read it.

    A server reads with `reader.LOOP_ELEMENTS` in its event loop. After this error it reads again in a worker thread,
    with `reader.MAX_ELEMENTS`; after that limit, it closes the connection. A Produce request is read once, with
    `reader.PRODUCE_ELEMENTS`.
    """


def shown(data: bytes | bytearray | memoryview) -> str:
    """Return received bytes for an error's text, shortened."""
    text = repr(bytes(data[:_SHOWN_BYTES]))
    return text if len(data) <= _SHOWN_BYTES else f"{text}... ({len(data)} bytes)"
