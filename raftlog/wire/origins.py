"""Same-origin check: browsers may use a node's API only from pages that this node served. Pure.

Any web page can send requests to addresses that the user's browser can reach, such as a broker on localhost. With the
content type of a form it needs no CORS permission, and with a DNS name that points at the broker (DNS rebinding) it can
read the responses, too. Browsers add headers that show the origin; clients, curl and nodes send none of these.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from raftlog.errors import ErrorCode, InvalidRequestError

_OWN_SITES = ("same-origin", "none")
_MARKS = ("Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Accept-Language", "Referer")


class Origins:
    """The host names under which browsers may reach a node.

    Args:
        hosts: names of the node's own addresses, and those that the operator allows. IP addresses and localhost are
            always allowed: with DNS rebinding, the browser sends the attacker's name as `Host`.
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts = {host.lower() for host in hosts}

    def require_own(self, headers: Mapping[str, str]) -> None:
        """Check a request's headers; names may be in any case if the mapping ignores case.

        Raises:
            InvalidRequestError: FOREIGN_ORIGIN: a page of another site sent the request.
        """
        site = headers.get("Sec-Fetch-Site", "none").lower()
        if site not in _OWN_SITES:
            raise _foreign(f"Sec-Fetch-Site: expected {' or '.join(_OWN_SITES)}, received {site!r:.40}")
        host, origin = headers.get("Host", ""), headers.get("Origin")
        if origin is not None and _place(origin) != host.lower():
            raise _foreign(f"Origin: expected this node's own, http://{host:.80}, received {origin!r:.80}")
        if _is_browsers(headers) and not self._is_own(host):
            raise _foreign(
                f"Host: received {host!r:.80}, which is not a name of this node; "
                "if it is one, add it to listeners.allowed_hosts in node.toml"
            )

    def _is_own(self, host: str) -> bool:
        name = _name(host)
        return name in self._hosts or name == "localhost" or name.endswith(".localhost") or _is_address(name)


def _place(origin: str) -> str | None:
    """Return host and port of an origin; None if it has none."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _name(host: str) -> str:
    """Return the name in a `Host` field, without the port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_browsers(headers: Mapping[str, str]) -> bool:
    return any(mark in headers for mark in _MARKS) or is_browsers_agent(headers.get("User-Agent", ""))


def is_browsers_agent(agent: str) -> bool:
    """Return whether a `User-Agent` is of a browser."""
    return agent.startswith("Mozilla/")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _foreign(why: str) -> InvalidRequestError:
    return InvalidRequestError(f"{why}; pages of other sites may not use this API", code=ErrorCode.FOREIGN_ORIGIN)
