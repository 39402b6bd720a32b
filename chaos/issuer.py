"""An issuer of tokens, whose keys are in a file that the nodes read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import orjson
from joserfc import jws
from joserfc.jwk import ECKey

ISSUER, AUDIENCE = "https://issuer.chaos.test", "raftlog"


class Issuer:
    """Signs tokens. Nodes look at its file every 5 s.

    Args:
        file: the public keys (JWKS).
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._keys: dict[str, ECKey] = {}
        self._made = 0
        self.add_key()

    @property
    def settings(self) -> dict[str, object]:
        """`[security.tokens]` of each node."""
        return {"issuer": ISSUER, "audience": AUDIENCE, "jwks_file": str(self.file), "leeway_s": 0}

    def add_key(self) -> str:
        """Publish another key, which signs from now on; return its id."""
        self._made += 1
        key_id = f"key-{self._made}"
        self._keys[key_id] = ECKey.generate_key("P-256")
        self._publish()
        return key_id

    def withdraw_other_keys(self) -> None:
        """Publish the newest key only."""
        newest = list(self._keys)[-1]
        self._keys = {newest: self._keys[newest]}
        self._publish()

    def token(self, user: str, *, lifetime_s: float) -> str:
        """Return a token of a user, signed with the newest key."""
        key_id, key = list(self._keys.items())[-1]
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "exp": time.time() + lifetime_s}
        return jws.serialize_compact({"alg": "ES256", "kid": key_id, "typ": "JWT"}, orjson.dumps(claims), key)

    def _publish(self) -> None:
        keys = [key.as_dict(private=False) | {"kid": key_id} for key_id, key in self._keys.items()]
        beside = self.file.with_suffix(".new")
        beside.write_bytes(orjson.dumps({"keys": keys}))
        os.replace(beside, self.file)  # noqa: PTH105  (as the rename that it is)
