"""The public keys of an issuer (JWKS, RFC 7517). A document may be hostile: all of it is bounded and checked."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from raftlog.errors import InvalidRequestError

MAX_DOCUMENT_BYTES = 512 << 10
MAX_KEYS = 100
MAX_KEY_ID = 256
"""Characters of a key's id."""
_RSA_BITS = (2_048, 4_096)
"""Smaller keys are unsafe; a check with a larger one takes too long."""
_MAX_EXPONENT_BITS = 32
_MAX_NUMBER = 1_024
"""Characters of one number of a key."""
_FAMILIES = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", "")),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    **dict.fromkeys(("Ed25519", "EdDSA"), ("OKP", "Ed25519")),
}
"""The kind of key, and its curve, that each algorithm uses."""
_SAME = {"EdDSA": "Ed25519"}
"""The former name (RFC 8037) of an algorithm, and its new one (RFC 9864). EdDSA also meant Ed448, which is left out."""
_NUMBERS = {"RSA": ("n", "e"), "EC": ("x", "y"), "OKP": ("x",)}
VerifyingKey: TypeAlias = RSAKey | ECKey | OKPKey


@dataclass(frozen=True, slots=True)
class PublicKey:
    """One key."""

    key_id: str
    """"": it has none."""
    family: tuple[str, str]
    """Its kind and its curve."""
    algorithm: str
    """The only algorithm that it may be used with; "": any of its family."""
    key: VerifyingKey

    def suits(self, algorithm: str) -> bool:
        """Return whether the key may check signatures of an algorithm."""
        named = _SAME.get(self.algorithm, self.algorithm)
        return _FAMILIES.get(algorithm) == self.family and named in ("", _SAME.get(algorithm, algorithm))


class PublicKeys:
    """The keys of one document.

    Args:
        unusable: how many keys of the document cannot check tokens, such as keys for encryption.
    """

    def __init__(self, keys: Collection[PublicKey], unusable: int = 0) -> None:
        self.unusable = unusable
        self._all = tuple(keys)
        self._by_id: dict[str, list[PublicKey]] = {}
        for key in self._all:
            self._by_id.setdefault(key.key_id, []).append(key)

    def __len__(self) -> int:
        return len(self._all)

    def find(self, key_id: str, algorithm: str) -> PublicKey | None:
        """Return the key of a token; None: there is none.

        Args:
            key_id: "": the token does not name its key, which is found if only one suits.
        """
        suiting = [key for key in (self._by_id.get(key_id, ()) if key_id else self._all) if key.suits(algorithm)]
        return suiting[0] if len(suiting) == 1 or (suiting and key_id) else None


def read_keys(document: bytes) -> PublicKeys:
    """Return the keys in a document. May take some ms for many keys.

    Raises:
        InvalidRequestError: the document is too large, not a JWKS, or none of its keys can be used.
    """
    if len(document) > MAX_DOCUMENT_BYTES:
        raise InvalidRequestError(f"expected at most {MAX_DOCUMENT_BYTES} bytes, received {len(document)} or more")
    try:
        decoded = orjson.loads(document)
    except orjson.JSONDecodeError as error:
        raise InvalidRequestError(f"expected JSON: {error}") from None
    given = decoded.get("keys") if isinstance(decoded, dict) else None
    if not isinstance(given, list):
        raise InvalidRequestError(f'expected an object with the list "keys", received {document[:80]!r}')
    if len(given) > MAX_KEYS:
        raise InvalidRequestError(f"expected at most {MAX_KEYS} keys, received {len(given)}")
    keys = [key for each in given if (key := _read(each)) is not None]
    if given and not keys:
        raise InvalidRequestError(
            f"none of its {len(given)} keys can be used: expected RSA keys of {_RSA_BITS[0]} to {_RSA_BITS[1]} bits, "
            "EC keys on P-256, P-384 or P-521, or Ed25519"
        )
    return PublicKeys(keys, len(given) - len(keys))


def _read(given: Any) -> PublicKey | None:
    """Return a key; None: it cannot check tokens. Private parts are not looked at."""
    if not isinstance(given, dict) or given.get("use", "sig") != "sig":
        return None
    key_id, kind, curve, algorithm = (given.get(name, "") for name in ("kid", "kty", "crv", "alg"))
    texts = (key_id, kind, curve, algorithm)
    if not all(isinstance(text, str) and len(text) <= MAX_KEY_ID for text in texts):
        return None
    family = (kind, "" if kind == "RSA" else curve)
    if family not in _FAMILIES.values() or (algorithm and _FAMILIES.get(algorithm) != family):
        return None
    numbers = {name: given.get(name) for name in _NUMBERS[kind]}
    if not all(isinstance(number, str) and len(number) <= _MAX_NUMBER for number in numbers.values()):
        return None
    if kind == "RSA" and not _is_sound(numbers):
        return None
    try:
        return PublicKey(key_id, family, algorithm, _made(kind, curve, numbers))
    except (JoseError, ValueError, TypeError):
        return None


def _made(kind: str, curve: str, numbers: Mapping[str, Any]) -> VerifyingKey:
    if kind == "RSA":
        return RSAKey.import_key({"kty": kind, **numbers})
    made = ECKey if kind == "EC" else OKPKey
    return made.import_key({"kty": kind, "crv": curve, **numbers})


def _is_sound(numbers: Mapping[str, Any]) -> bool:
    """Return whether a check with an RSA key is safe and quick."""
    try:
        modulus, exponent = (int.from_bytes(base64.urlsafe_b64decode(numbers[name] + "==")) for name in ("n", "e"))
    except (binascii.Error, ValueError):
        return False
    is_sized = _RSA_BITS[0] <= modulus.bit_length() <= _RSA_BITS[1]
    return is_sized and exponent.bit_length() <= _MAX_EXPONENT_BITS and exponent % 2 == 1 and exponent >= 3
