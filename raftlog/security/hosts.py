"""Hosts in access rules, which are compared with the addresses of senders as text. No input or output."""

from __future__ import annotations

import ipaddress

EVERY_HOST = "*"


def canonical_host(host: str) -> str | None:
    """Return a host of a rule as senders' addresses are written; None: it is neither an IP address nor `*`."""
    if host == EVERY_HOST:
        return host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return str(getattr(address, "ipv4_mapped", None) or address)
