"""The bytes that a Kafka connection has received, and the frames in them. No IO."""

from __future__ import annotations

from collections.abc import Callable

from raftlog.wire.kafka.framing import LENGTH_BYTES, frame_length
from raftlog.wire.kafka.reader import Buffer

SMALL_BYTES = 16 << 10
"""The buffer that every connection has. Frames that do not fit into it get a buffer of their own."""
PIECE_BYTES = 256 << 10
"""The most bytes of a large frame that are received at once, so that they can be counted before more arrive."""


class KafkaInput:
    """What has been received and not been taken as a frame yet.

    Args:
        max_frame_bytes: limit of a frame's length, which is checked before there is a buffer for it; it may change.
        take_buffer: returns a buffer for a large frame.
    """

    __slots__ = (
        "_frame",
        "_small",
        "_start",
        "_take_buffer",
        "_uncounted",
        "frames",
        "held",
        "max_frame_bytes",
        "received",
    )

    def __init__(self, *, max_frame_bytes: int, take_buffer: Callable[[int], memoryview]) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._take_buffer = take_buffer
        self._small = bytearray(SMALL_BYTES)
        self._start = 0
        """Where the next frame begins in the small buffer."""
        self.held = 0
        """How many bytes are in the small buffer, up to this position."""
        self._frame: memoryview | None = None
        """The large frame that is being received."""
        self.received = 0
        """How many bytes of the large frame were received."""
        self._uncounted = 0
        self.frames = 0
        """How many frames were taken."""

    def buffer(self) -> memoryview:
        """Return where the next bytes are to be written; empty: `next_frame` must be called first."""
        if self._frame is not None:
            return self._frame[self.received : self.received + PIECE_BYTES]
        self._compact()
        return memoryview(self._small)[self.held :]

    def wrote(self, count: int) -> None:
        """Note that bytes were written to `buffer`."""
        if self._frame is not None:
            self.received += count
            self._uncounted += count
        else:
            self.held += count

    def feed(self, data: Buffer) -> None:
        """Write bytes that were received before, at most as many as the small buffer has."""
        room = self.buffer()
        room[: len(data)] = data
        self.wrote(len(data))

    @property
    def is_partial(self) -> bool:
        """Whether a part of a frame was received."""
        return self._frame is not None or self._start < self.held

    @property
    def partial_bytes(self) -> int:
        """How many bytes of the frame that is being received were received."""
        return self.received if self._frame is not None else self.held - self._start

    @property
    def expected(self) -> int:
        """The length of the frame that is being received, as far as it is known."""
        return 0 if self._frame is None else len(self._frame)

    @property
    def has_room(self) -> bool:
        """Whether more bytes can be received before a frame is taken."""
        if self._frame is not None:
            return self.received < len(self._frame)
        return self.held - self._start < len(self._small)

    def uncounted(self) -> int:
        """Return how many bytes of a large frame were received since the last call."""
        count, self._uncounted = self._uncounted, 0
        return count

    def next_frame(self) -> tuple[Buffer, int] | None:
        """Return the next complete frame without its length, and how many of its bytes `uncounted` did not return.

        None: no frame is complete.

        Raises:
            KafkaProtocolError: what follows is not a frame, or one above the limit.
        """
        if self._frame is not None:
            return self._taken() if self.received == len(self._frame) else None
        available = self.held - self._start
        if available < LENGTH_BYTES:
            return None
        begin = self._start + LENGTH_BYTES
        length = frame_length(memoryview(self._small)[self._start : begin], max_bytes=self.max_frame_bytes)
        if available >= LENGTH_BYTES + length:
            self._start = begin + length
            self.frames += 1
            return bytes(memoryview(self._small)[begin : begin + length]), length
        if LENGTH_BYTES + length > len(self._small):
            self._begin_large(begin, length)
        return None

    def _begin_large(self, begin: int, length: int) -> None:
        content = self.held - begin
        self._frame = self._take_buffer(length)
        self._frame[:content] = memoryview(self._small)[begin : self.held]
        self._start = self.held = 0
        self.received = self._uncounted = content

    def _taken(self) -> tuple[Buffer, int]:
        assert self._frame is not None
        frame, self._frame, self.received = self._frame, None, 0
        left, self._uncounted = self._uncounted, 0
        self.frames += 1
        return frame, left

    def _compact(self) -> None:
        left = self.held - self._start
        if self._start:
            self._small[:left] = self._small[self._start : self.held]
        self._start, self.held = 0, left

    def drop(self) -> None:
        """Forget everything: the connection has ended."""
        self._frame = None
        self._start = self.held = self.received = self._uncounted = 0
