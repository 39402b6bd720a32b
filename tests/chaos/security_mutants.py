"""Broken rules of security that the scenario `rotation` must find: the simulator has neither TLS nor users."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "simulation"))
from mutating import Patches

from raftlog.config import TokensConfig
from raftlog.model import Acl
from raftlog.security import tokens
from raftlog.security.authenticators import Authenticators, Identified
from raftlog.security.authorizer import Authorizer
from raftlog.security.public_keys import PublicKeys
from raftlog.security.token_verifier import TokenIssuer
from raftlog.tls import TlsContext

SECURITY_MUTANTS: dict[str, Callable[[Patches], None]] = {}


def mutant(mutate: Callable[[Patches], None]) -> Callable[[Patches], None]:
    SECURITY_MUTANTS[mutate.__name__] = mutate
    return mutate


@mutant
def certificates_are_read_once(patch: Patches) -> None:
    patch(TlsContext, "reload", lambda _: False)


@mutant
def a_former_password_counts(patch: Patches) -> None:
    is_current = Authenticators.is_current

    def still_current(self: Authenticators, known: Any) -> bool:
        return isinstance(known, Identified) or is_current(self, known)

    patch(Authenticators, "is_current", still_current)


@mutant
def deny_rules_do_not_count(patch: Patches) -> None:
    add = Authorizer._add

    def add_allowing(self: Authorizer, acl: Acl) -> None:
        if acl.permission == "allow":
            add(self, acl)

    patch(Authorizer, "_add", add_allowing)


@mutant
def withdrawn_keys_count(patch: Patches) -> None:
    accept = TokenIssuer._accept

    def accept_with_former_keys(self: TokenIssuer, keys: PublicKeys | None) -> None:
        former = () if self._keys is None else self._keys._all
        accept(self, None if keys is None else PublicKeys((*keys._all, *former)))

    patch(TokenIssuer, "_accept", accept_with_former_keys)


@mutant
def expired_tokens_count(patch: Patches) -> None:
    expiry = tokens._expiry

    def late_expiry(claims: dict[str, Any], settings: TokensConfig, now_s: float) -> float:
        return expiry(claims | {"exp": claims["exp"] + 3_600}, settings, now_s)

    patch(tokens, "_expiry", late_expiry)
