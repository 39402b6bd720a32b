"""Messages of PLAIN and OAUTHBEARER, also as an attacker sends them."""

from __future__ import annotations

import base64

import pytest

from raftlog.wire.sasl import MAX_MESSAGE, SaslError, basic_of_plain, bearer_of


@pytest.mark.parametrize("message", [b"\0alice\0se:cret", b"alice\0alice\0se:cret"])
def test_a_password_becomes_a_header(message: bytes):
    assert base64.b64decode(basic_of_plain(message).removeprefix("Basic ")) == b"alice:se:cret"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0",
        b"\0\0",
        b"alice\0secret",
        b"\0alice\0secret\0more",
        b"bob\0alice\0secret",
        b"\0ali:ce\0secret",
        b"\0alice\0\xff\xfe",
        b"\0alice\0" + b"s" * MAX_MESSAGE,
        b"\0\0secret",
    ],
)
def test_other_messages_are_refused_without_a_quotation(message: bytes):
    with pytest.raises(SaslError) as caught:
        basic_of_plain(message)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer tok.en\x01\x01",
        b"y,,\x01auth=bearer  tok.en \x01\x01",
        b"n,,\x01host=h\x01port=9\x01auth=Bearer tok.en\x01traceId=1\x01\x01",
    ],
)
def test_a_token_is_found(message: bytes):
    assert bearer_of(message) == ("tok.en", "")


def test_an_authorization_id_is_found():
    assert bearer_of(b"n,a=al=2Cice,\x01auth=Bearer t\x01\x01") == ("t", "al,ice")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"p=tls-unique,,\x01auth=Bearer secret\x01\x01",
        b"n,b=x,\x01auth=Bearer secret\x01\x01",
        b"n,,\x01auth=Bearer secret\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Basic secret\x01\x01",
        b"n,,\x01auth=Bearer secret\x01auth=Bearer secret2\x01\x01",
        b"n,,\x01\x01",
        b"n,,auth=Bearer secret\x01\x01",
        b"\xff,,\x01auth=Bearer secret\x01\x01",
        b"n,,\x01auth=Bearer " + b"s" * MAX_MESSAGE,
    ],
)
def test_other_tokens_are_refused_without_a_quotation(message: bytes):
    with pytest.raises(SaslError) as caught:
        bearer_of(message)
    assert "secret" not in str(caught.value)
