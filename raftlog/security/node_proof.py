"""Proofs that a request is a node's: a keyed hash of the node, the address it dials, and the time (docs/adr/0028).

`Authorization: Raftlog-Node Broker:1;1732540000;10.0.0.1:9410;<64 hex digits>`. A proof is valid for one destination
and for five minutes, so a node sends the same text many times, and its peers check it once.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from raftlog.errors import AuthenticationError, ConfigError
from raftlog.model import Address
from raftlog.security.principal import Principal

SCHEME = "Raftlog-Node"
VALID_S = 300
"""How far a proof's time may be from the receiver's clock."""
RENEWED_S = 60
MIN_KEY_BYTES = 32
_TEXT = re.compile(r"((?:Broker|Controller):[0-9]{1,10});([0-9]{1,11});([!-:<-~]{1,300});([0-9a-f]{64})")


@dataclass(slots=True)
class NodeProofs:
    """Makes and checks proofs of one node."""

    key: bytes = field(repr=False)
    cluster_id: str
    own: str
    """This node's principal, such as `Broker:1`."""
    addresses: Collection[str]
    """The addresses under which other nodes dial this one."""
    _made: dict[Address, tuple[int, dict[str, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.key) < MIN_KEY_BYTES:
            raise ConfigError(
                f"security.cluster_key_file: holds {len(self.key)} bytes, expected at least {MIN_KEY_BYTES}"
            )

    def headers(self, address: Address, now_s: float) -> Mapping[str, str]:
        """Return the header fields of a request to an address."""
        period = int(now_s) // RENEWED_S
        known = self._made.get(address)
        if known is None or known[0] != period:
            if len(self._made) > 1_000:
                self._made.clear()
            claim = f"{self.own};{int(now_s)};{address.authority}"
            known = self._made[address] = period, {"Authorization": f"{SCHEME} {claim};{self._mac(claim)}"}
        return known[1]

    def verify(self, text: str, now_s: float) -> tuple[Principal, float]:
        """Return the node that a proof is of, and how many seconds it is valid for.

        Args:
            text: what follows the scheme.

        Raises:
            AuthenticationError: the proof is of another key or cluster, for another node, or too old.
        """
        match = _TEXT.fullmatch(text)
        if match is None or not hmac.compare_digest(self._mac(text[: match.start(4) - 1]), match[4]):
            raise AuthenticationError(
                "the proof of a node is not made with this cluster's key: security.cluster_key_file must be the same "
                "on all nodes"
            )
        name, time_s, address = match[1], int(match[2]), match[3]
        if abs(now_s - time_s) > VALID_S:
            raise AuthenticationError(
                f"the proof of {name} is of {now_s - time_s:+.0f} s ago by this node's clock, expected at most "
                f"{VALID_S} s: set the nodes' clocks"
            )
        if address not in self.addresses:
            raise AuthenticationError(
                f"the proof of {name} is for {address:.100}, and this node is {', '.join(sorted(self.addresses))}: "
                "advertise the address that nodes dial"
            )
        return Principal(name), time_s + VALID_S - now_s

    def derived(self, purpose: str) -> bytes:
        """Return a key for another purpose, which every node of the cluster can make."""
        return hmac.digest(self.key, f"raftlog-{purpose}-1\n{self.cluster_id}\n".encode(), "sha256")

    def _mac(self, claim: str) -> str:
        message = f"raftlog-node-1\n{self.cluster_id}\n{claim}".encode()
        return hmac.digest(self.key, message, "sha256").hex()
