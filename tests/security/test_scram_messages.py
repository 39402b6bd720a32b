"""SCRAM's messages: published vectors, an independent implementation, and hostile messages of both sides."""

from __future__ import annotations

import base64
import hashlib
import hmac
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.security.passwords import scram_credential
from raftlog.wire import scram
from raftlog.wire.scram import SHA_256, SHA_512, ClientFirst, ScramError, ServerFirst

FIRST = ClientFirst("user", "rOprNGfwEbeRWgbNEkqO")
NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
FINAL = f"c=biws,r={NONCE},p={PROOF}"
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_vectors_of_rfc_7677():
    assert FIRST.text == "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    answer = scram.parse_server_first(SERVER_FIRST, FIRST.nonce)
    assert answer.text == SERVER_FIRST
    salted = scram.salted_password("pencil", answer.salt, answer.iterations)
    assert scram.client_final(FIRST, answer, salted) == (FINAL, SERVER_FINAL)

    first = scram.parse_client_first(FIRST.text)
    final = scram.parse_client_final(FINAL, first)
    signed = scram.signed_text(first, answer, final.without_proof)
    credential = scram_credential("user", "pencil", answer.salt, iterations=4_096)
    assert scram.is_proven(bytes.fromhex(credential.stored_key), signed, final.proof)
    assert scram.server_final(bytes.fromhex(credential.server_key), signed) == SERVER_FINAL


def test_the_vectors_of_sha_512():
    """RFC 7677 has none: these are the ones that XMPP's developers published, which other implementations test with."""
    nonce = "rOprNGfwEbeRWgbNEkqO02431b08-2f89-4bad-a4e6-80c0564ec865"
    text = f"r={nonce},s=Yin2FuHTt/M0kJWb0t9OI32n2VmOGi3m+JfjOvuDF88=,i=4096"
    proof = "Hc5yec3NmCD7t+kFRw4/3yD6/F3SQHc7AVYschRja+Bc3sbdjlA0eH1OjJc0DD4ghn1tnXN5/Wr6qm9xmaHt4A=="
    server_final = "v=BQuhnKHqYDwQWS5jAw4sZed+C9KFUALsbrq81bB0mh+bcUUbbMPNNmBIupnS2AmyyDnG5CTBQtkjJ9kyY4kzmw=="
    answer = scram.parse_server_first(text, FIRST.nonce)
    salted = scram.salted_password("pencil", answer.salt, answer.iterations, SHA_512)
    made, expected = scram.client_final(FIRST, answer, salted, SHA_512)
    assert (made, expected) == (f"c=biws,r={nonce},p={proof}", server_final)

    final = scram.parse_client_final(made, FIRST, SHA_512)
    signed = scram.signed_text(FIRST, answer, final.without_proof)
    verifier = scram_credential("user", "pencil", b"other", answer.salt, iterations=4_096).verifiers[SHA_512]
    assert scram.is_proven(bytes.fromhex(verifier.stored_key), signed, final.proof, SHA_512)
    assert scram.server_final(bytes.fromhex(verifier.server_key), signed, SHA_512) == server_final
    with pytest.raises(ScramError, match="32 to 32 bytes"):
        scram.parse_client_final(made, FIRST, SHA_256)
    with pytest.raises(ScramError, match="64 to 64 bytes"):
        scram.parse_client_final(FINAL.replace(NONCE, nonce), FIRST, SHA_512)


def independent(
    user: str, password: str, server_first: str, header: str, nonce: str, hash_name: str
) -> tuple[str, str]:
    """Compute both last messages directly from RFC 5802's formulas, without this project's code."""
    given = dict(part.split("=", 1) for part in server_first.split(","))
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), base64.b64decode(given["s"]), int(given["i"]))
    client_key = hmac.new(salted, b"Client Key", hash_name).digest()
    saslname = user.replace("=", "=3D").replace(",", "=2C")
    rest = f"c={base64.b64encode(header.encode()).decode()},r={given['r']}"
    auth = f"n={saslname},r={nonce},{server_first},{rest}".encode()
    signature = hmac.new(hashlib.new(hash_name, client_key).digest(), auth, hash_name).digest()
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_key = hmac.new(salted, b"Server Key", hash_name).digest()
    verifier = hmac.new(server_key, auth, hash_name).digest()
    return f"{rest},p={base64.b64encode(proof).decode()}", f"v={base64.b64encode(verifier).decode()}"


@settings(deadline=None, max_examples=200)
@given(
    user=st.text("abc,=.@Zü", min_size=1, max_size=20),
    password=st.text("abcXYZ 0!,=", min_size=1, max_size=20),
    salt=st.binary(min_size=1, max_size=40),
    rounds=st.integers(4_096, 4_100),
    header=st.sampled_from(["n,,", "y,,"]),
    extension=st.sampled_from(["", ",x=1", ",a=b=c,z=y"]),
    mechanism=st.sampled_from([SHA_256, SHA_512]),
)
def test_both_sides_agree_with_an_independent_implementation(
    user: str, password: str, salt: bytes, rounds: int, header: str, extension: str, mechanism: str
):
    first = ClientFirst(user, "client-nonce", header)
    assert scram.parse_client_first(first.text) == first
    text = ServerFirst("client-nonce-server-part", salt, rounds, extension).text
    answer = scram.parse_server_first(text, first.nonce)
    salted = scram.salted_password(password, salt, rounds, mechanism)
    ours = scram.client_final(first, answer, salted, mechanism)
    hash_name = {SHA_256: "sha256", SHA_512: "sha512"}[mechanism]
    assert ours == independent(user, password, text, header, first.nonce, hash_name)
    final = scram.parse_client_final(ours[0], first, mechanism)
    signed = scram.signed_text(first, answer, final.without_proof)
    stored = scram.stored_key_of(salted, mechanism)
    assert scram.is_proven(stored, signed, final.proof, mechanism)
    assert not scram.is_proven(stored, signed + b"x", final.proof, mechanism)


def test_passwords_are_prepared_before_they_are_salted():
    assert scram.salted_password("I\u00adX \u2168", b"salt", 1) == scram.salted_password("IX IX", b"salt", 1)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("", "begins with n,, or y,,"),
        ("n=user,r=abcdefgh", "begins with n,, or y,,"),
        ("p=tls-exporter,,n=user,r=abcdefgh", "channel binding"),
        ("n,a=root,n=user,r=abcdefgh", "another user"),
        ("n,,m=x,n=user,r=abcdefgh", "extension is not supported"),
        ("n,,n=user,r=abcdefgh,m=x", "extension is not supported"),
        ("n,,r=abcdefgh,n=user", "in this order"),
        ("n,,n=user", "expected the attributes"),
        ("n,,n=,r=abcdefgh", "a user's name"),
        ("n,,n=us=er,r=abcdefgh", "=2C for a comma"),
        ("n,,n=us=2cer,r=abcdefgh", "=2C for a comma"),
        ("n,,n=user,r=", "8 to 256"),
        ("n,,n=user,r=abc", "8 to 256"),
        ("n,,n=user,r=abcd efgh", "8 to 256"),
        ("n,,n=user,r=äbcdefgh", "8 to 256"),
        ("n,,n=user,r=" + "a" * 257, "8 to 256"),
        ("n,,n=user,r=abcdefgh,", "name=value"),
        ("n,,n=user,r=abcdefgh,xy", "name=value"),
        ("n,,n=user,r=abcdefgh,x=" + "y" * 3_000, "at most 2048 characters"),
        ("n,,n=us\0er,r=abcdefgh", "printable"),
        ("n,,n=us\ud800er,r=abcdefgh", "printable"),
        ("n,,n=user\n,r=abcdefgh", "printable"),
    ],
)
def test_a_malformed_first_message_of_a_client_is_refused(message: str, why: str):
    with pytest.raises(ScramError, match=why):
        scram.parse_client_first(message)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("", "expected the attributes"),
        (f"c=biws,r={NONCE}", "expected the attributes"),
        (f"c=eSws,r={NONCE},p={PROOF}", "header of the first message"),
        (f"c=,r={NONCE},p={PROOF}", "header of the first message"),
        (f"c=biws,r=other-nonce-entirely,p={PROOF}", "the nonce of the server"),
        (f"r={NONCE},c=biws,p={PROOF}", "in this order"),
        (f"c=biws,r={NONCE},p=", "32 to 32 bytes"),
        (f"c=biws,r={NONCE},p=AAAA", "32 to 32 bytes"),
        (f"c=biws,r={NONCE},p=!!!!", "Base64"),
        (f"c=biws,r={NONCE},p={PROOF}{PROOF}", "Base64"),
        (f"c=biws,r={NONCE},p=ä{PROOF}", "Base64"),
        (f"c=biws,r={NONCE},p={PROOF[:-2]}R=", "Base64"),  # Other bits behind the last byte.
        (f"c=biws,r={NONCE},m=x,p={PROOF}", "extension is not supported"),
        (f"c=biws,r={NONCE},p={PROOF}" + "," * 3_000, "at most 2048 characters"),
    ],
)
def test_a_malformed_last_message_of_a_client_is_refused(message: str, why: str):
    with pytest.raises(ScramError, match=why):
        scram.parse_client_final(message, FIRST)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("", "expected the attributes"),
        ("e=other-error", "expected the attributes"),
        (SERVER_FIRST.replace(NONCE, FIRST.nonce), "at least 8 more"),
        (SERVER_FIRST.replace(NONCE, FIRST.nonce + "short"), "at least 8 more"),
        (SERVER_FIRST.replace(NONCE, NONCE[1:]), "the client's nonce"),
        (SERVER_FIRST.replace("i=4096", "i=4095"), "4,096 to 10,000,000"),
        (SERVER_FIRST.replace("i=4096", "i=10000001"), "4,096 to 10,000,000"),
        (SERVER_FIRST.replace("i=4096", "i=" + "9" * 1_000), "4,096 to 10,000,000"),
        (SERVER_FIRST.replace("i=4096", "i=-4096"), "4,096 to 10,000,000"),
        (SERVER_FIRST.replace("i=4096", "i=4096.0"), "4,096 to 10,000,000"),
        (SERVER_FIRST.replace("i=4096", "i=٤٠٩٦"), "4,096 to 10,000,000"),
        (SERVER_FIRST.replace("s=W22ZaJ0SNY7soEsUEjb6gQ==", "s="), "1 to 1024 bytes"),
        (SERVER_FIRST.replace("s=W22ZaJ0SNY7soEsUEjb6gQ==", "s=?"), "Base64"),
        ("m=x," + SERVER_FIRST, "extension is not supported"),
    ],
)
def test_a_hostile_first_message_of_a_server_is_refused(message: str, why: str):
    with pytest.raises(ScramError, match=why):
        scram.parse_server_first(message, FIRST.nonce)


@settings(deadline=None, max_examples=500)
@given(st.one_of(st.text(), st.text("nyp=,arcsimv0123=+/ "), st.builds("n,,n={},r={}".format, st.text(), st.text())))
def test_any_text_is_parsed_or_refused_without_being_quoted(text: str):
    for parse in (
        scram.parse_client_first,
        lambda given: scram.parse_client_final(given, FIRST),
        lambda given: scram.parse_server_first(given, FIRST.nonce),
    ):
        with suppress(ScramError):
            parse(text)
