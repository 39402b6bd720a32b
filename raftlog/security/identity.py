"""The peer of a connection, certificates' principals, and the sender of a request that another node forwards."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from raftlog.errors import InvalidRequestError
from raftlog.security.principal import ANONYMOUS, Principal

ON_BEHALF_OF = "Raftlog-On-Behalf-Of"
"""The header with the sender of a forwarded request. Only nodes of the cluster may send it."""
_NODE_PATH = re.compile(r"/(broker|controller)/([0-9]{1,10})")
_USER_PATH = re.compile(r"/user/([\w.@-]{1,128})")
_USER = re.compile(r"[\w.@-]{1,128}")
MAX_GROUPS = 100
"""The most groups of a principal."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection."""

    address: str
    """Its IP address."""
    is_tls: bool = False
    certificate: Principal | None = None
    """The principal of its verified certificate; None: it has sent none."""

    @property
    def is_private(self) -> bool:
        """Whether other machines cannot read what it sends."""
        return self.is_tls or _is_loopback(self.address)


@dataclass(frozen=True, slots=True)
class Sender:
    """The principal of a request, and the host that rules see."""

    principal: Principal = ANONYMOUS
    host: str = ""
    listener: str = field(default="", compare=False)
    """`public` or `internal`; for the audit log."""
    route: str = field(default="", compare=False)
    """Method and path, with its variables by name; for the audit log."""
    expires_s: float = field(default=math.inf, compare=False)
    """When its token expires, in seconds since 1970. Requests without an end look at it."""


UNKNOWN_SENDER = Sender()
"""The sender of a request on a node that does not authenticate."""


def certificate_principal(certificate: Mapping[str, Any], cluster_id: str) -> Principal | None:
    """Return the principal of a verified certificate, as `ssl.SSLSocket.getpeercert` returns it.

    `spiffe://<cluster>/broker/1` is `Broker:1`, `spiffe://<cluster>/user/alice` is `User:alice`. Without such a URI,
    the subject's common name is a user's name. None: it has neither.
    """
    for kind, value in certificate.get("subjectAltName", ()):
        if kind == "URI" and str(value).startswith("spiffe://"):
            return _spiffe_principal(str(value), cluster_id)
    for part in certificate.get("subject", ()):
        for name, value in part:
            if name == "commonName" and _USER.fullmatch(str(value)):
                return Principal(f"User:{value}")
    return None


def _spiffe_principal(uri: str, cluster_id: str) -> Principal | None:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.netloc != cluster_id or parts.query or parts.fragment:
        return None
    if (node := _NODE_PATH.fullmatch(parts.path)) is not None:
        return Principal(f"{node[1].capitalize()}:{int(node[2])}")
    user = _USER_PATH.fullmatch(parts.path)
    return None if user is None else Principal(f"User:{user[1]}")


def forwarded(sender: Sender) -> dict[str, str]:
    """Return the header with the sender of a request that is forwarded to another node."""
    names = [sender.host, sender.principal.name, *sender.principal.groups]
    return {ON_BEHALF_OF: ",".join(quote(name, safe=":.-_@") for name in names)}


def sender_of_forwarded(text: str) -> Sender:
    """Return the sender that `forwarded` wrote.

    Raises:
        InvalidRequestError: the header has another form.
    """
    parts = text.split(",")
    if not 2 <= len(parts) <= 2 + MAX_GROUPS:
        raise InvalidRequestError(f"{ON_BEHALF_OF}: expected a host and a principal, received {text!r:.80}")
    host, name, *groups = map(unquote, parts)
    if not name.startswith("User:"):
        raise InvalidRequestError(f"{ON_BEHALF_OF}: expected a user, received {name!r:.80}")
    return Sender(Principal(name, tuple(groups)), host)


@lru_cache(maxsize=1_024)
def _is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback
