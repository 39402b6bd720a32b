"""`Principal`: the sender of a request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request."""

    name: str
    """`User:alice`; `User:ANONYMOUS`; nodes: `Broker:1`, `Controller:101`."""
    groups: tuple[str, ...] = ()
    """`Group:eng`, from a token's claims."""


NODE_KINDS = ("Broker:", "Controller:")


def is_node(principal: Principal) -> bool:
    """Return whether a principal is a node of the cluster."""
    return principal.name.startswith(NODE_KINDS)


ANONYMOUS = Principal("User:ANONYMOUS")
"""A sender without credentials."""
