"""A small real issuer of tokens: it signs with keys that rotate, and serves them as OpenID Connect says."""

from __future__ import annotations

import asyncio
import base64
import hmac
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import orjson
from aiohttp import web
from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

AUDIENCE = "raftlog"
CLIENT, SECRET = "loader", "client-secret-1"
SigningKey = RSAKey | ECKey | OKPKey


class Issuer:
    """Signs tokens. `url` is known once it is served."""

    def __init__(self) -> None:
        self.url = "https://issuer.test"
        self.keys: dict[str, tuple[str, SigningKey]] = {}
        """By id: algorithm and key. The last one signs."""
        self.asked: list[str] = []
        """The paths of requests."""
        self.answers: dict[str, Callable[[], web.StreamResponse]] = {}
        """Other answers than the true ones, by path."""
        self.lifetime_s = 300.0
        self.pending = 1
        """How often a device must ask until its user has agreed."""
        self.refresh_tokens: list[str] = []
        self.rotate("first")

    def rotate(self, key_id: str, algorithm: str = "ES256") -> None:
        """Add a key, with which tokens are signed from now on."""
        key: SigningKey
        if algorithm[:2] in ("RS", "PS"):
            key = RSAKey.generate_key(2_048)
        elif algorithm.startswith("ES"):
            key = ECKey.generate_key({"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm])
        else:
            key = OKPKey.generate_key("Ed25519")
        self.keys[key_id] = (algorithm, key)

    @property
    def jwks(self) -> bytes:
        keys = [key.as_dict(private=False) | {"kid": name, "use": "sig"} for name, (_, key) in self.keys.items()]
        return orjson.dumps({"keys": keys})

    def claims(self, **more: Any) -> dict[str, Any]:
        """Return good claims; a value of None removes one."""
        now = time.time()
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": "ruled", "iat": now, "exp": now + self.lifetime_s}
        return {name: value for name, value in (claims | more).items() if value is not None}

    def token(self, *, header: dict[str, Any] | None = None, key: str | None = None, **claims: Any) -> str:
        """Return a signed token."""
        key_id = key or list(self.keys)[-1]
        algorithm, signing = self.keys[key_id]
        head = {"alg": algorithm, "kid": key_id, "typ": "JWT"} | (header or {})
        given = {name: value for name, value in head.items() if value is not None}
        return signed(given, orjson.dumps(self.claims(**claims)), algorithm, signing)

    # The server.

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Issuer]:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._describe)
        app.router.add_get("/keys", self._keys)
        app.router.add_post("/token", self._token)
        app.router.add_post("/device", self._device)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    @contextmanager
    def in_thread(self) -> Iterator[Issuer]:
        """Serve from a thread of its own, for tests that block their event loop."""
        started, loop = threading.Event(), asyncio.new_event_loop()
        stop = asyncio.Event()

        async def serve() -> None:
            async with self.served():
                started.set()
                await stop.wait()

        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
        thread.start()
        try:
            assert started.wait(10)
            yield self
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()

    def _answered(self, request: web.Request) -> web.StreamResponse | None:
        self.asked.append(request.path)
        other = self.answers.get(request.path)
        return None if other is None else other()

    async def _describe(self, request: web.Request) -> web.StreamResponse:
        return self._answered(request) or web.json_response(
            {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "token_endpoint": f"{self.url}/token",
                "device_authorization_endpoint": f"{self.url}/device",
            }
        )

    async def _keys(self, request: web.Request) -> web.StreamResponse:
        return self._answered(request) or web.Response(body=self.jwks, content_type="application/json")

    async def _device(self, request: web.Request) -> web.StreamResponse:
        return self._answered(request) or web.json_response(
            {
                "device_code": "device-1",
                "user_code": "ABCD-EFGH",
                "verification_uri": f"{self.url}/activate",
                "expires_in": 60,
                "interval": 1,
            }
        )

    async def _token(self, request: web.Request) -> web.StreamResponse:
        if (other := self._answered(request)) is not None:
            return other
        form = await request.post()
        grant = str(form.get("grant_type"))
        if grant == "client_credentials":
            expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
            if request.headers.get("Authorization") != f"Basic {expected}":
                return web.json_response({"error": "invalid_client"}, status=401)
        elif grant.endswith("device_code"):
            self.pending -= 1
            if self.pending >= 0:
                return web.json_response({"error": "authorization_pending"}, status=400)
        elif grant == "refresh_token" and form.get("refresh_token") not in self.refresh_tokens:
            return web.json_response({"error": "invalid_grant"}, status=400)
        self.refresh_tokens = [f"refresh-{time.time_ns()}"]
        answer = {"access_token": self.token(), "token_type": "Bearer", "expires_in": int(self.lifetime_s)}
        return web.json_response(answer | {"refresh_token": self.refresh_tokens[0]})


def signed(header: dict[str, Any], payload: bytes, algorithm: str, key: SigningKey | bytes) -> str:
    """Return a token whose header may name another algorithm than the one that signs it; bytes sign by HMAC."""
    first = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (orjson.dumps(header), payload))
    if isinstance(key, bytes):
        signature = hmac.digest(key, first, "sha256")
    else:
        signature = jws.JWSRegistry.algorithms[algorithm].sign(first, key)
    return (first + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()
