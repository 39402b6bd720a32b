"""The quotas of one lean connection: what its last request owes, and the charges of the current one."""

from __future__ import annotations

from raftlog.broker.lean.routes import LeanRequest
from raftlog.broker.quotas import LEAST_S, MUTE_S, QuotaGate, RefusedError, answer_limit
from raftlog.security.identity import Sender
from raftlog.security.quotas import Buckets, Kind, Turn
from raftlog.wire import paths

_KINDS: dict[str, Kind] = {paths.PRODUCE: "produce", paths.BATCHES: "produce", paths.FETCH: "fetch"}


class LeanQuotas:
    """One connection's use of its sender's quotas. Nothing is charged while there are no quotas."""

    __slots__ = ("_address", "_before", "_begun", "_gate", "_not_before", "_turn", "max_answer_bytes")

    def __init__(self, gate: QuotaGate, address: str) -> None:
        self._gate = gate
        self._address = address
        self._before: Turn | None = None
        """The turn of the last request, if it was not paid when it ended, or was refused."""
        self._turn: Turn | None = None
        self._begun = False
        """Whether the request whose head is in the buffer was charged."""
        self._not_before = 0.0
        """Until then the connection is muted in any case."""
        self.max_answer_bytes: int | None = None
        """The most bytes that the current request shall return."""

    @property
    def is_metered(self) -> bool:
        """Whether the current request has a limit."""
        return self._turn is not None

    def begin(self, request: LeanRequest, sender: Sender) -> None:
        """Charge the request whose head is in the buffer, once; then wait for `wait_s`.

        Raises:
            OverloadedError: the sender owes too much on other connections.
        """
        if self._begun or not self._gate.is_active:
            return
        kind = _KINDS[request.route.path]
        buckets = self._gate.buckets_of(sender, request.client_id, self._address, kind, request.node)
        if buckets is None:
            return
        self._start(buckets, request.length, kind)

    def _start(self, buckets: Buckets, length: int, kind: Kind) -> None:
        before, self._before = self._before, None
        try:
            self._turn = self._gate.begin(buckets, before, length)
        except RefusedError as error:
            self._before = error.turn
            self.mute(MUTE_S)
            raise
        self._begun = True
        self.max_answer_bytes = answer_limit(buckets) if kind == "fetch" else None

    def mute(self, seconds: float) -> None:
        """Read no request for some time."""
        self._not_before = self._gate.now() + seconds

    def received(self) -> None:
        """Note that the head has left the buffer."""
        self._begun = False

    def not_received(self, size: int) -> None:
        """Take back the charge of the rest of a body that will not be used."""
        if self._turn is not None and size:
            self._turn.refund("produce", size)

    def end(self, answer_bytes: int, seconds: float) -> int:
        """Charge the answer of the current request; return for how many ms the connection is muted."""
        turn, self._turn, self.max_answer_bytes = self._turn, None, None
        if turn is None:
            return 0
        throttle_ms = self._gate.end(turn, answer_bytes, seconds)
        self._before = turn if throttle_ms else None
        return throttle_ms

    def wait_s(self) -> float:
        """Return for how long the connection is to be muted now."""
        if self._before is None and self._turn is None and not self._not_before:
            return 0.0
        now = self._gate.now()
        wait_s = self._not_before - now
        is_active = self._gate.is_active  # Without quotas nothing is owed.
        if is_active and self._before is not None:
            wait_s = max(wait_s, self._before.owed_s(now))
        if is_active and self._turn is not None and self._begun:
            wait_s = max(wait_s, self._turn.hold_s(now))
        if wait_s > LEAST_S:
            return wait_s
        self._not_before = 0.0
        return 0.0

    def drop(self) -> None:
        """Take back the charges of a request that is not served: it is refused, or its connection is lost."""
        if self._turn is not None and self._begun:
            self._turn.cancel()
            self._turn = None
        self._begun = False
