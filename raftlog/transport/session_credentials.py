"""What proves the sender of a session's requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raftlog.model import Address

if TYPE_CHECKING:
    from raftlog.transport.token_source import RenewedToken


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCredentials:
    """A client's field `Authorization`, fixed or renewed, or a node's proof. Its text shows no secret."""

    authorization: str = field(default="", repr=False)
    """The field `Authorization` of each request, sent with TLS or within one machine only; "": none."""
    tokens: RenewedToken | None = None
    """Bearer tokens in its place, which change. The session closes them."""
    node_proof: Callable[[Address], Mapping[str, str]] | None = None
    """Returns the header fields that prove a node to an address."""


NO_CREDENTIALS = SessionCredentials()
