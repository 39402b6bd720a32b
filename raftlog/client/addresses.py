"""The addresses of brokers, as users and brokers write them."""

from __future__ import annotations

from collections.abc import Sequence

from raftlog import transport
from raftlog.errors import ConfigError
from raftlog.model import DEFAULT_PORT, Address


def parse_bootstrap(bootstrap: str | Sequence[str]) -> list[Address]:
    """Read `http://host:port` URLs, in a list or separated by commas.

    Raises:
        ConfigError: the list is empty, or an item is not such a URL.
    """
    texts = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
    if any("@" in text for text in texts):  # Not quoted: it may hold a password, with a comma in it, too.
        raise ConfigError(
            f"bootstrap: expected URLs such as http://127.0.0.1:{DEFAULT_PORT}, without a user or a password; "
            "pass them by raftlog.Security or the options --user and --password-file"
        )
    addresses = [_bootstrap_address(text.strip()) for text in texts if text.strip()]
    if not addresses:
        raise ConfigError(f"bootstrap: expected at least one URL such as http://127.0.0.1:9400, received {bootstrap!r}")
    return addresses


def _bootstrap_address(url: str) -> Address:
    try:
        return Address.of_url(url)
    except ValueError as error:
        raise ConfigError(f"bootstrap: {error}, received {url!r:.200}") from None


def address_of(broker_url: str) -> Address:
    """Return the address in a URL that a broker sent.

    Raises:
        PeerAnswerError: it is no broker's URL.
    """
    try:
        return Address.of_url(broker_url)
    except ValueError as error:
        raise transport.PeerAnswerError(f"a broker's URL: {error}, received {broker_url!r:.200}") from None
