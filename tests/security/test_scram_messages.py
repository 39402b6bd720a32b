"""SCRAM's messages: the vectors of RFC 7677, an independent implementation, and hostile messages of both sides."""

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
from raftlog.wire.scram import ClientFirst, ScramError, ServerFirst

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


def independent(user: str, password: str, server_first: str, header: str, nonce: str) -> tuple[str, str]:
    """Compute both last messages directly from RFC 5802's formulas, without this project's code."""
    given = dict(part.split("=", 1) for part in server_first.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(given["s"]), int(given["i"]))
    client_key = hmac.new(salted, b"Client Key", hashlib.sha256).digest()
    saslname = user.replace("=", "=3D").replace(",", "=2C")
    rest = f"c={base64.b64encode(header.encode()).decode()},r={given['r']}"
    auth = f"n={saslname},r={nonce},{server_first},{rest}".encode()
    signature = hmac.new(hashlib.sha256(client_key).digest(), auth, hashlib.sha256).digest()
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_key = hmac.new(salted, b"Server Key", hashlib.sha256).digest()
    verifier = hmac.new(server_key, auth, hashlib.sha256).digest()
    return f"{rest},p={base64.b64encode(proof).decode()}", f"v={base64.b64encode(verifier).decode()}"


@settings(deadline=None, max_examples=200)
@given(
    user=st.text("abc,=.@Zü", min_size=1, max_size=20),
    password=st.text("abcXYZ 0!,=", min_size=1, max_size=20),
    salt=st.binary(min_size=1, max_size=40),
    rounds=st.integers(4_096, 4_100),
    header=st.sampled_from(["n,,", "y,,"]),
    extension=st.sampled_from(["", ",x=1", ",a=b=c,z=y"]),
)
def test_both_sides_agree_with_an_independent_implementation(
    user: str, password: str, salt: bytes, rounds: int, header: str, extension: str
):
    first = ClientFirst(user, "client-nonce", header)
    assert scram.parse_client_first(first.text) == first
    text = ServerFirst("client-nonce-server-part", salt, rounds, extension).text
    answer = scram.parse_server_first(text, first.nonce)
    salted = scram.salted_password(password, salt, rounds)
    ours, theirs = scram.client_final(first, answer, salted), independent(user, password, text, header, first.nonce)
    assert ours == theirs
    final = scram.parse_client_final(ours[0], first)
    signed = scram.signed_text(first, answer, final.without_proof)
    assert scram.is_proven(scram.stored_key_of(salted), signed, final.proof)
    assert not scram.is_proven(scram.stored_key_of(salted), signed + b"x", final.proof)


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
