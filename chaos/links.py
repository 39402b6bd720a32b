"""One Toxiproxy server, and one proxy for each link from a node to another node's listener.

toxiproxy-python makes the proxies. This module starts and stops the server process, names links by their two ends, sets
and removes toxics, and raises errors for the refusals that the package would ignore.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import requests
from requests.adapters import HTTPAdapter
from toxiproxy import Toxiproxy

from raftlog.model import Address

T = TypeVar("T")
BOTH = ("upstream", "downstream")
HEAL_TIMEOUT_S = 12
WORKERS = 16
PROJECT_BINARY = Path(__file__).parents[1] / ".tools" / "toxiproxy-server"


class LinkError(Exception):
    """Toxiproxy refused a request."""


@dataclass(frozen=True, slots=True)
class Link:
    """The traffic that `source` sends to one listener of `target`, and the answers."""

    source: str
    target: str
    proxy: Any


class Links:
    """All links of one cluster.

    A cut drops bytes without a notice, as a lost network does; it resets and refuses nothing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._links: list[Link] = []
        self._server: subprocess.Popen[bytes] | None = None
        self._toxiproxy = Toxiproxy()
        self._url = ""
        self._http = requests.Session()
        self._http.mount("http://", HTTPAdapter(pool_connections=1, pool_maxsize=WORKERS))
        self._toxics: dict[str, set[str]] = {}
        """The active toxics of each proxy."""
        self._refusing: set[str] = set()
        """Nodes whose links refuse connections."""

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
        self._url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 10
        while not self._toxiproxy.running():
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise LinkError(f"toxiproxy-server did not start; see {self._folder / 'toxiproxy.log'}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop the server process that `start` made."""
        self._http.close()
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
        self._set(self._between(source, target), BOTH, "timeout", {"timeout": 0})

    def cut_both_ways(self, one: str, other: str) -> None:
        """Drop everything between two nodes, on the connections that either of them opened."""
        self.cut(one, other)
        self.cut(other, one)

    def cut_one_way(self, sender: str, receiver: str) -> None:
        """Drop what `sender` sends to `receiver`, also as answers; the other direction still works."""
        self._set(self._between(sender, receiver), ("upstream",), "timeout", {"timeout": 0})
        self._set(self._between(receiver, sender), ("downstream",), "timeout", {"timeout": 0})

    def hold(self, one: str, other: str) -> None:
        """Hold every byte between two nodes until `heal`, which delivers them: messages that arrive late."""
        self._set(self._both(one, other), BOTH, "bandwidth", {"rate": 0})

    def isolate(self, node: str, *, spare: frozenset[str] = frozenset()) -> None:
        """Cut `node` off from every other node except those in `spare`."""
        others = {link.source for link in self._links} | {link.target for link in self._links}
        for other in sorted(others - {node} - spare):
            self.cut_both_ways(node, other)

    def slow_both_ways(self, one: str, other: str, *, latency_ms: int, jitter_ms: int = 0) -> None:
        """Delay each piece of data between two nodes, on the connections that either of them opened."""
        attributes = {"latency": latency_ms, "jitter": jitter_ms}
        self._set(self._both(one, other), ("downstream",), "latency", attributes)

    def narrow(self, one: str, other: str, *, kilobytes_per_s: int) -> None:
        """Limit the bandwidth between two nodes, in each direction of each connection."""
        self._set(self._both(one, other), BOTH, "bandwidth", {"rate": kilobytes_per_s})

    def reset(self, one: str, other: str, *, after_ms: int = 0) -> None:
        """Reset (RST) every connection between two nodes, new ones too, `after_ms` after its first bytes."""
        self._set(self._both(one, other), BOTH, "reset_peer", {"timeout": after_ms})

    def truncate_answers(self, one: str, other: str, *, after_bytes: int) -> None:
        """Close every connection between two nodes after so many bytes of answers: in a header or a body."""
        self._set(self._both(one, other), ("downstream",), "limit_data", {"bytes": after_bytes})

    def refuse(self, *targets: str) -> None:
        """Close every connection to these nodes, and refuse new ones, as a host does whose process was killed."""
        self._refusing |= set(targets)
        self._enable(targets, enabled=False)

    def accept(self, *targets: str) -> None:
        """Undo `refuse`. `heal` does not do so, because a process may still be down then."""
        self._refusing -= set(targets)
        self._enable(targets, enabled=True)

    def heal(self) -> None:
        """Remove every toxic; refusals stay.

        Toxiproxy tries for five seconds to deliver each piece that a closed connection held, 1,024 pieces at most, and
        leaves the link's toxics in place meanwhile. Such a link is replaced: its connections are reset.
        """
        _at_once(self._heal, [link for link in self._links if self._toxics.get(link.proxy.name)])

    def _heal(self, link: Link) -> None:
        toxics = self._toxics[link.proxy.name]
        names = sorted(toxics)
        for name in names:
            path = f"/proxies/{link.proxy.name}/toxics/{name}"
            try:
                answer = self._http.delete(f"{self._url}{path}", timeout=HEAL_TIMEOUT_S)
            except requests.ReadTimeout:
                self._replace(link)
                break
            if answer.status_code not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND):
                raise LinkError(f"{path}: {answer.status_code} {answer.text}")
        toxics.difference_update(names)  # Another fault may have begun meanwhile.

    def _replace(self, link: Link) -> None:
        path = f"/proxies/{link.proxy.name}"
        answer = self._http.delete(f"{self._url}{path}", timeout=10)
        if answer.status_code != HTTPStatus.NO_CONTENT:
            raise LinkError(f"{path}: {answer.status_code} {answer.text}")
        fields = {field: getattr(link.proxy, field) for field in ("name", "listen", "upstream")}
        self._post("/proxies", {**fields, "enabled": link.target not in self._refusing}, also=HTTPStatus.CREATED)

    def _between(self, source: str, target: str) -> list[Link]:
        return [link for link in self._links if link.source == source and link.target == target]

    def _both(self, one: str, other: str) -> list[Link]:
        return [*self._between(one, other), *self._between(other, one)]

    def _set(self, links: list[Link], streams: tuple[str, ...], kind: str, attributes: dict[str, int]) -> None:
        """Add a toxic to links; a toxic of another fault that a link already has stays as it is."""

        def add(link: Link) -> None:
            for stream in streams:
                name = f"{kind}_{stream}"
                body = {"name": name, "type": kind, "stream": stream, "toxicity": 1.0, "attributes": attributes}
                self._post(f"/proxies/{link.proxy.name}/toxics", body, also=HTTPStatus.CONFLICT)
                self._toxics.setdefault(link.proxy.name, set()).add(name)

        _at_once(add, links)

    def _enable(self, targets: tuple[str, ...], *, enabled: bool) -> None:
        links = [link for link in self._links if link.target in targets]
        _at_once(lambda link: self._post(f"/proxies/{link.proxy.name}", {"enabled": enabled}), links)

    def _post(self, path: str, body: dict[str, Any], also: int = HTTPStatus.OK) -> None:
        # Not toxiproxy-python, which decodes any answer: a refusal would count as a success.
        answer = self._http.post(f"{self._url}{path}", json=body, timeout=10)
        if answer.status_code not in (HTTPStatus.OK, also):
            raise LinkError(f"{path}: {answer.status_code} {answer.text}")


def _at_once(act: Callable[[T], None], on: Iterable[T]) -> None:
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(act, on))
