"""The bytes of a frame that a Kafka connection is receiving, as they count against the broker's memory. No IO."""

from __future__ import annotations

from raftlog.broker.kafka.input import SMALL_BYTES, KafkaInput
from raftlog.errors import OverloadedError
from raftlog.serving.limits import AddressLimits


class ReceivedBytes:
    """Counts what was received of the next frame.

    Args:
        input: what was received.
        inflight: the limits of the broker.
    """

    __slots__ = ("_counted", "_inflight", "_input", "uncounted")

    def __init__(self, input: KafkaInput, inflight: AddressLimits) -> None:  # noqa: A002
        self._input = input
        self._inflight = inflight
        self._counted = 0
        self.uncounted = 0
        """Received bytes that do not count yet, because there is no space: nothing is read until they do."""

    @property
    def total(self) -> int:
        """How many bytes of a large frame were received."""
        return self._counted + self.uncounted

    def count(self, *, another: bool) -> bool:
        """Count what was received, and return whether there was space.

        Args:
            another: another frame is to be taken: there must be space for a small one as well.
        """
        self.uncounted += self._input.uncounted()
        reserve = SMALL_BYTES if another else 0
        try:
            self._inflight.hold(self.uncounted + reserve)
        except OverloadedError:
            return False
        if reserve:
            self._inflight.release(reserve)
        self._counted += self.uncounted
        self.uncounted = 0
        return True

    def take(self, uncounted: int) -> int:
        """Count the rest of a frame that is complete; return how many bytes count for it from now on."""
        self._inflight.hold(uncounted)
        held_bytes, self._counted = self._counted + uncounted, 0
        return held_bytes

    def drop(self) -> None:
        """Forget everything: nothing more is read."""
        self._input.drop()
        self._inflight.release(self._counted)
        self._counted = self.uncounted = 0
