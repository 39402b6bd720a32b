"""The quotas of one Kafka connection: a request over its quota is answered, and then the connection is muted."""

from __future__ import annotations

from raftlog.broker.kafka.call import KafkaCall
from raftlog.broker.quotas import LEAST_S, MUTE_S, QuotaGate, RefusedError, answer_limit
from raftlog.security.kafka_apis import KAFKA
from raftlog.security.quotas import Kind, Turn
from raftlog.wire.client_ids import is_client_id

_KINDS: dict[int, Kind] = {0: "produce", 1: "fetch"}


class KafkaQuotas:
    """One connection's use of its sender's quotas.

    A request that HTTP would refuse waits here instead: Kafka's protocol has no refusal, and its clients wait.
    """

    __slots__ = ("_address", "_before", "_gate", "_not_before")

    def __init__(self, gate: QuotaGate, address: str) -> None:
        self._gate = gate
        self._address = address
        self._before: Turn | None = None
        """The turn of the last request, if it was not paid when it ended, or had to wait."""
        self._not_before = 0.0
        """Until then the connection begins no request in any case."""

    def mute(self, seconds: float) -> None:
        """Begin no request for some time."""
        self._not_before = max(self._not_before, self._gate.now() + seconds)

    def wait_s(self) -> float:
        """Return for how long the connection is muted now, `MUTE_S` at most: ask again then."""
        if self._before is None and not self._not_before:
            return 0.0
        now = self._gate.now()
        wait_s = self._not_before - now
        if self._before is not None and self._gate.is_active:
            wait_s = max(wait_s, self._before.owed_s(now))
        if wait_s > LEAST_S:
            return min(wait_s, MUTE_S)
        self._not_before = 0.0
        return 0.0

    def begin(self, call: KafkaCall, turn: Turn | None, length: int) -> tuple[Turn | None, float]:
        """Charge a request once; return its charges, and for how long it is held: then call again, with `turn`.

        Args:
            turn: what the call before returned; None: the request was not charged yet.
        """
        if not self._gate.is_active or KAFKA[call.api_key].gate == "open":
            return None, 0.0
        kind = _KINDS.get(call.api_key, "request")
        if turn is None:
            # Of other ids, which may have 32 kB, no quota can name one. None is kept.
            client_id = call.client_id if is_client_id(call.client_id) else ""
            buckets = self._gate.buckets_of(call.sender, client_id, self._address, kind)
            if buckets is None:
                return None, 0.0
            before, self._before = self._before, None
            try:
                turn = self._gate.begin(buckets, before, length)
            except RefusedError as error:
                self._before = error.turn
                return None, MUTE_S
        call.max_answer_bytes = answer_limit(turn.buckets) if kind == "fetch" else None
        hold_s = turn.hold_s(self._gate.now())
        return turn, min(hold_s, MUTE_S) if hold_s > LEAST_S else 0.0

    def end(self, turn: Turn, answer_bytes: int, seconds: float) -> int:
        """Charge the answer of a request; return for how many ms the connection is muted."""
        throttle_ms = self._gate.end(turn, answer_bytes, seconds)
        self._before = turn if throttle_ms else self._before
        return throttle_ms
