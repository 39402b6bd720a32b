"""Tokens and keys as an unauthenticated client, a buggy issuer and a hostile one send them. No network."""

from __future__ import annotations

import base64
import time
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from issuer_support import AUDIENCE, Issuer, signed
from joserfc.jwk import ECKey, OKPKey, RSAKey

from raftlog.config import TokensConfig
from raftlog.errors import AuthenticationError, ConfigError, InvalidRequestError
from raftlog.security.principal import Principal
from raftlog.security.public_keys import MAX_DOCUMENT_BYTES, MAX_KEYS, read_keys
from raftlog.security.tokens import VerifiedToken, read_header, verify

ISSUER = Issuer()


def configured(**more: Any) -> TokensConfig:
    return TokensConfig(**({"issuer": ISSUER.url, "audience": AUDIENCE} | more))


def checked(token: str, *, issuer: Issuer = ISSUER, now_s: float | None = None, **settings: Any) -> VerifiedToken:
    config = configured(**settings)
    header = read_header(token, config)
    key = read_keys(issuer.jwks).find(header.key_id, header.algorithm)
    if key is None:
        raise AuthenticationError("no key")
    return verify(token, header, key, config, time.time() if now_s is None else now_s)


def forged(header: dict[str, Any], claims: dict[str, Any] | bytes, signature: bytes = b"x") -> str:
    parts = (orjson.dumps(header), claims if isinstance(claims, bytes) else orjson.dumps(claims), signature)
    return b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts).decode()


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"])
def test_a_token_names_its_user_and_groups(algorithm: str):
    issuer = Issuer()
    issuer.rotate("second", algorithm)
    token = issuer.token(sub="ann|1", groups=["eng", "ops"])

    found = checked(token, issuer=issuer, algorithms=(algorithm,), groups_claim="groups", leeway_s=7)

    assert found.principal == Principal("User:ann|1", ("Group:eng", "Group:ops"))
    assert found.expires_s == pytest.approx(time.time() + 307, abs=5)


def test_a_token_of_another_audience_among_several_is_accepted():
    assert checked(ISSUER.token(aud=["other", AUDIENCE])).principal.name == "User:ruled"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": None}, "exp"),
        ({"exp": "never"}, "exp"),
        ({"exp": True}, "exp"),
        ({"exp": 0}, "expired"),
        ({"exp": time.time() - 11}, "expired"),
        ({"exp": [1]}, "exp"),
        ({"nbf": time.time() + 86_400}, "nbf"),  # The suite may run for long after this line.
        ({"nbf": "soon"}, "nbf"),
        ({"iss": None}, "iss"),
        ({"iss": "https://issuer.test/"}, "iss"),
        ({"iss": ["https://issuer.test"]}, "iss"),
        ({"aud": None}, "aud"),
        ({"aud": "raftlog2"}, "aud"),
        ({"aud": ["other"]}, "aud"),
        ({"aud": {AUDIENCE: 1}}, "aud"),
        ({"aud": [[AUDIENCE]]}, "aud"),
        ({"sub": None}, "sub"),
        ({"sub": 7}, "sub"),
        ({"sub": ""}, "sub"),
        ({"sub": "*"}, "sub"),
        ({"sub": "ANONYMOUS"}, "sub"),
        ({"sub": "Broker:1"}, "sub"),
        ({"sub": "a\nb"}, "sub"),
        ({"sub": "a\u202eb"}, "sub"),
        ({"sub": "x" * 129}, "sub"),
        ({"groups": ["a", "b", "c"] * 34}, "groups"),
        ({"groups": [1]}, "groups"),
        ({"groups": [f"{'ü' * 100}{number}" for number in range(12)]}, "groups"),
        ({"groups": {"eng": 1}}, "groups"),
    ],
)
def test_a_claim_that_is_missing_or_wrong_is_refused(claims: dict[str, Any], reason: str):
    with pytest.raises(AuthenticationError, match=reason) as refused:
        checked(ISSUER.token(**claims), groups_claim="groups")
    assert refused.value.challenge.startswith("Bearer")


def test_groups_are_always_groups_and_those_that_no_rule_can_name_are_left_out():
    token = ISSUER.token(groups=["eng", "User:admin", "Broker:1", "*", "", "a\0b", "eng"])

    assert checked(token, groups_claim="groups").principal.groups == ("Group:eng",)
    assert checked(token).principal.groups == ()


def test_clocks_may_differ_by_the_leeway():
    now = time.time()
    token = ISSUER.token(exp=now, nbf=now)

    assert checked(token, now_s=now + 9.9).principal
    assert checked(token, now_s=now - 9.9).principal
    for far in (now + 10, now - 10.1):
        with pytest.raises(AuthenticationError):
            checked(token, now_s=far)


def test_the_header_cannot_choose_how_a_token_is_checked():
    """`none`, HMAC with the public key as its secret, a key of its own, and a key of another kind."""
    public = ISSUER.keys["first"][1]
    mine = ECKey.generate_key("P-256")
    claims = orjson.dumps(ISSUER.claims(sub="admin"))
    pem = public.as_pem(private=False)
    rsa = RSAKey.generate_key(2_048)
    attacks = [
        forged({"alg": "none"}, claims, b""),
        forged({"alg": "none", "kid": "first"}, claims),
        forged({"alg": "NONE", "kid": "first"}, claims),
        forged({"kid": "first"}, claims),
        forged({"alg": ["ES256"], "kid": "first"}, claims),
        signed({"alg": "HS256", "kid": "first"}, claims, "HS256", pem),
        signed({"alg": "ES256", "kid": "first"}, claims, "HS256", pem),
        signed({"alg": "ES256", "kid": "first"}, claims, "ES256", mine),
        signed({"alg": "ES256", "jwk": mine.as_dict(private=False)}, claims, "ES256", mine),
        signed({"alg": "ES256", "kid": "first", "jku": "https://evil.test"}, claims, "ES256", mine),
        signed({"alg": "RS256", "kid": "first"}, claims, "RS256", rsa),
        signed({"alg": "ES256", "kid": "first", "b64": False, "crit": ["b64"]}, claims, "ES256", public),
        signed({"alg": "ES256", "kid": "first", "crit": ["exp"]}, claims, "ES256", public),
        signed({"alg": "ES256", "kid": "first", "typ": "logout+jwt"}, claims, "ES256", public),
        ISSUER.token()[:-8] + "AAAAAAAA",
    ]
    for token in attacks:
        with pytest.raises(AuthenticationError):
            checked(token)


@pytest.mark.parametrize("name", ["Ed25519", "EdDSA"])
@pytest.mark.parametrize("named_in_key", ["", "Ed25519", "EdDSA"])
def test_both_names_of_ed25519_count_by_default_whatever_name_its_key_has(name: str, named_in_key: str):
    """RFC 9864 gave the algorithm of RFC 8037 a new name. Issuers use both, in tokens and in documents of keys."""
    key = OKPKey.generate_key("Ed25519")
    plain = key.as_dict(private=False) | {"kid": "k"} | ({"alg": named_in_key} if named_in_key else {})
    found = read_keys(key_document(plain)).find("k", name)
    assert found is not None
    token = signed({"alg": name, "kid": "k"}, orjson.dumps(ISSUER.claims(sub="ann")), name, key)

    verified = verify(token, read_header(token, configured()), found, configured(), time.time())

    assert verified.principal.name == "User:ann"


def test_ed25519_is_never_checked_with_another_kind_of_key_nor_others_with_its_keys():
    """EdDSA once meant Ed448 too, and names no curve: only the key's own kind decides."""
    ed25519, ed448 = OKPKey.generate_key("Ed25519"), OKPKey.generate_key("Ed448")
    rsa, ec = RSAKey.generate_key(2_048), ECKey.generate_key("P-256")
    given = {"ed25519": ed25519, "ed448": ed448, "x25519": OKPKey.generate_key("X25519"), "rsa": rsa, "ec": ec}
    documents = [key.as_dict(private=False) | {"kid": name} for name, key in given.items()]
    documents += [documents[3] | {"kid": "rsa as EdDSA", "alg": "EdDSA"}, documents[4] | {"kid": "x", "alg": "EdDSA"}]
    documents += [documents[0] | {"kid": "ed25519 as ES256", "alg": "ES256"}]
    keys = read_keys(key_document(*documents))
    settings = configured()

    assert (len(keys), keys.unusable) == (3, 5)
    for name in ("Ed25519", "EdDSA"):
        assert [key_id for key_id in given if keys.find(key_id, name)] == ["ed25519"]
        claims = orjson.dumps(ISSUER.claims(sub="admin"))
        for key_id, signs, algorithm in (
            ("ed448", ed448, "EdDSA"),
            ("ed25519", ed448, "EdDSA"),
            ("ed25519", rsa, "RS256"),
            ("ed25519", ec, "ES256"),
            ("ed25519", ed25519.as_pem(private=False), "HS256"),
            ("ec", ec, "ES256"),
            ("rsa", rsa, "RS256"),
        ):
            token = signed({"alg": name, "kid": key_id}, claims, algorithm, signs)
            header = read_header(token, settings)
            if (found := keys.find(header.key_id, header.algorithm)) is not None:
                with pytest.raises(AuthenticationError):
                    verify(token, header, found, settings, time.time())
    for algorithm in ("ES256", "RS256", "PS256"):
        token = signed({"alg": algorithm, "kid": "ed25519"}, claims, "EdDSA", ed25519)
        assert keys.find("ed25519", read_header(token, settings).algorithm) is None
    with pytest.raises(AuthenticationError, match="alg"):
        read_header(signed({"alg": "Ed448", "kid": "ed448"}, claims, "EdDSA", ed448), settings)
    with pytest.raises(AuthenticationError, match="alg"):
        read_header(
            signed({"alg": "EdDSA", "kid": "ed25519"}, claims, "EdDSA", ed25519), configured(algorithms=("ES256",))
        )


def test_a_token_without_a_key_id_is_checked_if_one_key_suits():
    issuer = Issuer()
    issuer.rotate("rsa", "RS256")
    assert checked(issuer.token(header={"kid": None}), issuer=issuer).principal
    issuer.rotate("rsa-2", "RS256")
    with pytest.raises(AuthenticationError, match="no key"):
        checked(issuer.token(header={"kid": None}), issuer=issuer)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a",
        "a.b",
        "a.b.c.d",
        "..",
        "a b.c.d",
        "é.é.é",
        "!" * 8_192,
        "A" * 8_192,
        "A." * 4_096,
        "A" * 8_000 + ".A.A",
        forged({"alg": "ES256", "kid": "first"}, b"[" * 5_000),
        forged({"alg": "ES256", "kid": ["first"]}, {}),
        forged({"alg": "ES256", "kid": "k" * 1_000}, {}),
        forged({"alg": "ES256", "kid": "first", "x": [[[[]]]]}, {}),
        base64.urlsafe_b64encode(b'{"alg":"ES256","x":' + b"[" * 1_400).decode().rstrip("=") + ".A.A",
        base64.urlsafe_b64encode(b"[" * 1_400 + b"]" * 100).decode().rstrip("=") + ".A.A",
        base64.urlsafe_b64encode(b"\xff\xfe").decode().rstrip("=") + ".A.A",
    ],
)
def test_a_malformed_token_is_refused_quickly(token: str):
    begin = time.thread_time()
    with pytest.raises(AuthenticationError):
        checked(token)
    assert time.thread_time() - begin < 0.05


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 3_000 + b"]" * 3_000, b'{"exp":1e999}', b'{"exp":NaN}']
)
def test_signed_claims_of_another_form_are_refused(payload: bytes):
    algorithm, key = ISSUER.keys["first"]
    with pytest.raises(AuthenticationError):
        checked(signed({"alg": algorithm, "kid": "first"}, payload, algorithm, key))


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.text(), st.builds("{}.{}.{}".format, *[st.from_regex(r"[\w-]*", fullmatch=True)] * 3)))
def test_any_token_is_refused_and_never_an_internal_error(text: str):
    with pytest.raises(AuthenticationError):
        checked(text)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["sub", "kid", "x"]), inner),
    max_leaves=5,
)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.sampled_from(["iss", "aud", "exp", "nbf", "sub", "groups"]), _JSON))
def test_any_signed_claims_are_checked_without_an_internal_error(claims: dict[str, Any]):
    algorithm, key = ISSUER.keys["first"]
    token = signed({"alg": algorithm, "kid": "first"}, orjson.dumps(ISSUER.claims() | claims), algorithm, key)
    with suppress(AuthenticationError):
        assert checked(token, groups_claim="groups").principal.name.startswith("User:")


def key_document(*keys: Any) -> bytes:
    return orjson.dumps({"keys": list(keys)})


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")  # The test makes a weak key.
def test_keys_that_cannot_check_tokens_are_left_out():
    good = ISSUER.keys["first"][1].as_dict(private=False) | {"kid": "good"}
    rsa = RSAKey.generate_key(2_048).as_dict(private=False)
    weak = RSAKey.generate_key(1_024).as_dict(private=False)
    bad = [
        7,
        {},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "oct"},
        good | {"use": "enc"},
        good | {"kid": 7},
        good | {"kid": "k" * 1_000},
        good | {"crv": "P-999"},
        good | {"crv": ["P-256"]},
        good | {"alg": "HS256"},
        good | {"alg": "RS256"},
        good | {"x": "AAAA"},
        good | {"y": good["x"]},  # Off the curve.
        good | {"x": "A" * 10_000},
        good | {"x": 5},
        {"kty": "EC", "crv": "P-256"},
        rsa | {"e": "AQ"},  # e = 1: every signature fits.
        rsa | {"e": rsa["n"]},  # Slow.
        rsa | {"n": "A" * 1_000},
        rsa | {"n": "_" * 1_000},  # 6,000 bits.
        rsa | {"e": "!"},
        weak,
        {"kty": "OKP", "crv": "X25519", "x": "A" * 43},
    ]

    keys = read_keys(key_document(*bad, good))

    assert (len(keys), keys.unusable) == (1, len(bad))
    assert keys.find("good", "ES256") is not None
    assert keys.find("good", "RS256") is None
    with pytest.raises(InvalidRequestError, match="none of its"):
        read_keys(key_document(*bad))


def test_private_parts_that_an_issuer_publishes_by_mistake_are_not_loaded():
    private = ISSUER.keys["first"][1].as_dict(private=True)
    key = read_keys(key_document(private | {"kid": "p"})).find("p", "ES256")
    assert key is not None
    assert not key.key.is_private


def test_an_issuer_may_withdraw_every_key():
    assert len(read_keys(b'{"keys":[]}')) == 0


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"null",
        b'{"keys":{}}',
        b'{"keys":7}',
        b"<html>",
        b"[" * 100_000,
        b'{"keys":' + b"[" * 100_000,
        b"\xff" * 100,
        b" " * (MAX_DOCUMENT_BYTES + 1),
        key_document(*[{"kty": "EC"}] * (MAX_KEYS + 1)),
        key_document(*[{"kty": "EC"}] * 10_000),
    ],
)
def test_a_hostile_document_of_keys_is_refused_quickly(document: bytes):
    begin = time.thread_time()
    with pytest.raises(InvalidRequestError):
        read_keys(document)
    assert time.thread_time() - begin < 0.2


@pytest.mark.parametrize(
    "options",
    [
        {"audience": ""},
        {"issuer": ""},
        {"issuer": "http://issuer.test"},
        {"issuer": "https://user:pw@issuer.test"},
        {"issuer": "https://[::1"},
        {"issuer": "file:///etc/passwd"},
        {"jwks_url": "http://issuer.test/keys"},
        {"jwks_url": "https://issuer.test/keys", "jwks_file": "keys.json"},
        {"algorithms": ()},
        {"principal_claim": ""},
        {"leeway_s": -1},
        {"leeway_s": 3_600},
        {"refresh_s": 0},
        {"max_age_s": 10},
    ],
)
def test_settings_that_would_be_unsafe_are_refused(options: dict[str, Any]):
    with pytest.raises(ConfigError, match=r"security\.tokens"):
        configured(**options)


def test_an_issuer_whose_keys_are_in_a_file_may_have_any_name():
    assert configured(issuer="accounts.example", jwks_file="keys.json").issuer == "accounts.example"
