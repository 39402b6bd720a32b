"""A cluster with access rules in force, and raw requests to it under any name."""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Acl, Address, UserCredential
from raftlog.security.node_proof import NodeProofs
from raftlog.security.session_tokens import SessionTokens
from raftlog.wire import paths, scram
from raftlog.wire.scram import ClientFirst

KEY = "k" * 40
PASSWORDS = {"admin": "admin-secret-1", "ruled": "ruled-secret-1", "nobody": "nobody-secret-1"}
SECURITY = {"super_users": ["User:admin"], "cluster_key_file": "../cluster.key"}


def basic(user: str, password: str | None = None) -> dict[str, str]:
    text = f"{user}:{PASSWORDS[user] if password is None else password}"
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


def proof(
    cluster: LocalCluster, node: str, address: Address, *, key: str = KEY, cluster_id: str = "", ago_s: float = 0
) -> dict[str, str]:
    """Return the proof of a node, such as `Broker:1`, for an address; made `ago_s` seconds ago."""
    made = NodeProofs(key.encode(), cluster_id or cluster.cluster_id, node, ())
    return dict(made.headers(address, time.time() - ago_s))


def session(cluster: LocalCluster, user: str, *, ago_s: float) -> dict[str, str]:
    """Return a session token that a node has made `ago_s` seconds ago, for a user of another password."""
    key = NodeProofs(KEY.encode(), cluster.cluster_id, "Broker:1", ()).derived("session-tokens")
    credential = UserCredential(user=user, salt="s", iterations=1, stored_key="k", server_key="k")
    return bearer(SessionTokens(key).issue(credential, time.time() - ago_s))


@contextmanager
def secured(folder: Path, *, brokers: int = 2, mode: str = "acl", **more: Any) -> Iterator[LocalCluster]:
    """Start a cluster, create its users, and restart it with rules in force."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cluster.key").write_text(KEY)
    extra = {"*": {"security": SECURITY | more, "broker": {"offsets_topic_num_partitions": 2}}}
    cluster = LocalCluster(folder, controllers=1, brokers=brokers, port=0, extra=extra)
    with cluster:
        create_users(cluster)
        for name in cluster.names:
            cluster.configure(name, security=SECURITY | more | {"authorizer": mode})
        for name in cluster.names:
            cluster.restart(name)
        cluster.wait_ready()
        yield cluster


def create_users(cluster: LocalCluster) -> None:
    from raftlog import blocking  # noqa: PLC0415  (loads the client)

    with blocking.Admin(cluster.bootstrap) as admin:
        for user, password in PASSWORDS.items():
            admin.put_user(user, password)


class Caller:
    """Sends requests; a lean one on a connection of its own, which carries nothing else."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url

    async def __call__(
        self, method: str, path: str, headers: dict[str, str] | None = None, **request: Any
    ) -> tuple[int, bytes]:
        url = path if path.startswith("http") else f"{self.url}{path}"
        async with self._session.request(method, url, allow_redirects=False, headers=headers, **request) as response:
            is_endless = response.content_type == "text/event-stream"
            return response.status, await (response.content.readany() if is_endless else response.read())

    async def rules(self, *acls: Acl, permission: str = "allow") -> None:
        """Replace all rules of `ruled`."""
        status, body = await self("DELETE", "/v1/acls?principal=ruled", basic("admin"))
        assert status == 200, body
        if acls:
            rules = [{**asdict(acl), "permission": permission} for acl in acls]
            status, body = await self("POST", "/v1/acls", basic("admin"), json={"acls": rules})
            assert status == 201, body


@asynccontextmanager
async def caller(url: str) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession() as session:
        yield Caller(session, url)


def code_of(body: bytes) -> str:
    return str(orjson.loads(body)["error"]["code"])


async def log_in(ask: Caller, first_url: str, second_url: str, user: str, password: str) -> tuple[int, dict[str, Any]]:
    """Log in by raw requests, and check the server's proof."""
    first = ClientFirst(user, secrets.token_urlsafe(18))
    status, body = await ask("POST", first_url + paths.LOGIN, json={"message": first.text})
    assert status == 200, body
    answer = scram.parse_server_first(orjson.loads(body)["message"], first.nonce)
    salted = scram.salted_password(password, answer.salt, answer.iterations)
    message, expected = scram.client_final(first, answer, salted)
    status, body = await ask("POST", second_url + paths.LOGIN, json={"message": message, "first": first.text})
    found = orjson.loads(body)
    if status == 200:
        assert found["message"] == expected
    return status, found


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
