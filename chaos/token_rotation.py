"""Tokens during the story of rotated credentials: keys are replaced and withdrawn, tokens expire, a client renews."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import raftlog
from chaos.cluster import ChaosCluster
from chaos.credentials import expect
from chaos.site import BrokenPromiseError
from raftlog.errors import AuthenticationError, RetriableError
from raftlog.model import Acl

USER = "token-reader"
CLIENT_LIFETIME_S = 3.0
"""How long the tokens of the client that renews them are valid."""
BRIEF_S = 6.0
"""How long a token is valid whose end the brokers must notice."""
LONG_S = 3_600.0
POLL_S = 0.05


class Tokens:
    """The issuer's keys, and a user with tokens.

    Args:
        topic: what the user asks for.
    """

    def __init__(self, cluster: ChaosCluster, topic: str) -> None:
        assert cluster.issuer is not None, "the cluster is secure"
        self._cluster, self._topic, self._issuer = cluster, topic, cluster.issuer
        self._withdrawn = self._newest = self._expired = ""

    @property
    def rule(self) -> Acl:
        """The rule that allows the user to ask."""
        return Acl(principal=f"User:{USER}", operation="describe", resource_type="topic", resource_name=self._topic)

    async def rotate(self, brokers: Sequence[str]) -> None:
        """Replace the issuer's key, and wait until these brokers accept the new key only.

        Raises:
            BrokenPromiseError: a broker still accepts the former key, or an expired token, after 30 s.
        """
        self._withdrawn = self._issuer.token(USER, lifetime_s=LONG_S)
        await self._expect("ok", brokers, self._withdrawn)
        self._issuer.add_key()
        self._newest = self._issuer.token(USER, lifetime_s=LONG_S)
        self._expired = self._issuer.token(USER, lifetime_s=BRIEF_S)
        expires_s = time.time() + BRIEF_S
        await self._expect("ok", brokers, self._newest)
        # An issuer withdraws a key when the tokens that it has signed have expired; a leaked one at once.
        await asyncio.sleep(max(0.0, expires_s - time.time(), CLIENT_LIFETIME_S))
        await self._expect("unknown", brokers, self._expired, within_s=0)
        self._issuer.withdraw_other_keys()
        await self._expect("unknown", brokers, self._withdrawn)

    async def expect_rotated(self, brokers: Sequence[str]) -> None:
        """Check that the first answers of brokers that come back are right.

        Raises:
            BrokenPromiseError: one is not.
        """
        await self._expect("unknown", brokers, self._withdrawn, within_s=0)
        await self._expect("unknown", brokers, self._expired, within_s=0)
        await self._expect("ok", brokers, self._newest, within_s=0)

    @asynccontextmanager
    async def client_at_work(self) -> AsyncIterator[None]:
        """Have a client ask all the time, with tokens that it renews.

        Raises:
            BrokenPromiseError: a valid token was refused.
        """
        working = asyncio.create_task(self._ask_on(), name="client with tokens")
        try:
            yield
            if working.done():
                await working
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def _ask_on(self) -> None:
        ca_file = raftlog.Security.from_environment().ca_file
        security = raftlog.Security(
            ca_file=ca_file, token_provider=lambda: self._issuer.token(USER, lifetime_s=CLIENT_LIFETIME_S)
        )
        async with raftlog.Admin(self._cluster.bootstrap, security=security) as admin:
            while True:
                try:
                    await admin.list_topics()
                except AuthenticationError as error:
                    raise BrokenPromiseError(f"a valid token was refused: {error}") from None
                except RetriableError:
                    pass
                await asyncio.sleep(POLL_S)

    async def _expect(self, wanted: str, brokers: Sequence[str], token: str, within_s: float | None = None) -> None:
        security = raftlog.Security(ca_file=raftlog.Security.from_environment().ca_file, token=token)
        await expect(self._cluster, self._topic, wanted, brokers, security, USER, within_s=within_s)
