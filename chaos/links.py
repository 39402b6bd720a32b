"""One Toxiproxy server, and one proxy for each link from a node to another node's listener.

toxiproxy-python does what it does (create proxies, add and remove toxics, reset); this module starts and stops the
server process, names links by their two ends, and refuses the answers that the package would ignore.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from toxiproxy import Toxiproxy
from toxiproxy.api import APIConsumer
from toxiproxy.exceptions import ProxyExists

from raftlog.model import Address

PROJECT_BINARY = Path(__file__).parents[1] / ".tools" / "toxiproxy-server"


class LinkError(Exception):
    """Toxiproxy did not do what it was asked."""


@dataclass(frozen=True, slots=True)
class Link:
    """Traffic that `source` sends to one listener of `target`, and the answers."""

    source: str
    target: str
    proxy: Any


class Links:
    """All links of one cluster. Cuts drop bytes in silence, as a lost network does; nothing is reset or refused."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._links: list[Link] = []
        self._server: subprocess.Popen[bytes] | None = None
        self._toxiproxy = Toxiproxy()

    def start(self) -> None:
        """Start the server on a free port and wait until it answers."""
        binary = shutil.which("toxiproxy-server") or str(PROJECT_BINARY)
        if not Path(binary).exists():
            raise LinkError(f"toxiproxy-server is neither on PATH nor at {PROJECT_BINARY}: run `make install`")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "toxiproxy.log").open("wb") as log:
            self._server = subprocess.Popen(
                [binary, "-host", "127.0.0.1", "-port", str(port)], stdout=log, stderr=subprocess.STDOUT
            )
        self._toxiproxy.update_api_consumer("127.0.0.1", port)
        deadline = time.monotonic() + 10
        while not self._toxiproxy.running():
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise LinkError(f"toxiproxy-server did not start; see {self._folder / 'toxiproxy.log'}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End the server process that `start` made."""
        if self._server is not None:
            self._server.terminate()
            self._server.wait(timeout=10)
            self._server = None

    def add(self, source: str, target: str, *, upstream: Address, listen: Address) -> None:
        """Let `source` reach `upstream`, a listener of `target`, through `listen`."""
        proxy = self._toxiproxy.create(
            upstream=str(upstream), name=f"{source}--{target}--{upstream.port}", listen=str(listen)
        )
        self._links.append(Link(source, target, proxy))

    def cut(self, source: str, target: str) -> None:
        """Drop what `source` sends on its connections to `target`, and the answers on those connections."""
        for link in self._between(source, target):
            for stream in ("upstream", "downstream"):
                _toxic(link, f"cut_{stream}", "timeout", stream, {"timeout": 0})

    def cut_both_ways(self, one: str, other: str) -> None:
        """Drop everything between two nodes, whoever opened the connection."""
        self.cut(one, other)
        self.cut(other, one)

    def cut_one_way(self, sender: str, receiver: str) -> None:
        """Drop what `sender` says to `receiver`, whoever opened the connection; the other way still works."""
        for link in self._between(sender, receiver):
            _toxic(link, "cut_upstream", "timeout", "upstream", {"timeout": 0})
        for link in self._between(receiver, sender):
            _toxic(link, "cut_downstream", "timeout", "downstream", {"timeout": 0})

    def hold(self, one: str, other: str) -> None:
        """Keep every byte between two nodes back until `heal`, which delivers them: messages that arrive late.

        `heal` then takes up to five seconds for each connection that ended meanwhile: Toxiproxy tries that long.
        """
        for link in [*self._between(one, other), *self._between(other, one)]:
            for stream in ("upstream", "downstream"):
                _toxic(link, f"hold_{stream}", "bandwidth", stream, {"rate": 0})

    def isolate(self, node: str, *, spare: frozenset[str] = frozenset()) -> None:
        """Cut `node` from every other node except those in `spare`."""
        others = {link.source for link in self._links} | {link.target for link in self._links}
        for other in sorted(others - {node} - spare):
            self.cut_both_ways(node, other)

    def slow(self, source: str, target: str, *, latency_ms: int, jitter_ms: int = 0) -> None:
        """Delay each piece of data between `source` and `target`."""
        for link in self._between(source, target):
            _toxic(link, "slow", "latency", "downstream", {"latency": latency_ms, "jitter": jitter_ms})

    def slow_both_ways(self, one: str, other: str, *, latency_ms: int) -> None:
        """Delay everything between two nodes, whoever opened the connection."""
        self.slow(one, other, latency_ms=latency_ms)
        self.slow(other, one, latency_ms=latency_ms)

    def heal(self) -> None:
        """Remove every fault."""
        if not self._toxiproxy.reset():
            raise LinkError("toxiproxy-server refused to reset")

    def _between(self, source: str, target: str) -> list[Link]:
        return [link for link in self._links if link.source == source and link.target == target]


def _toxic(link: Link, name: str, kind: str, stream: str, attributes: dict[str, int]) -> None:
    # Not `proxy.add_toxic`: it decodes any answer, so a refusal would pass for success.
    body = {"name": name, "type": kind, "stream": stream, "toxicity": 1.0, "attributes": attributes}
    try:
        answer: requests.Response = APIConsumer.post(f"/proxies/{link.proxy.name}/toxics", json=body, timeout=10)
    except ProxyExists:  # So the package calls every conflict: the link has this toxic already.
        return
    if answer.status_code != requests.codes.ok:
        raise LinkError(f"toxic {name} on {link.proxy.name}: {answer.status_code} {answer.text}")
