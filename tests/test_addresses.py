"""Addresses from text: what a user, a configuration or a peer may write, and what is refused."""

from __future__ import annotations

import pytest

from raftlog.model import Address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("broker.example:9400", Address("broker.example", 9400)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:9400", Address("::1", 9400)),
        ("[fe80::1%eth0]:1", Address("fe80::1%eth0", 1)),
        ("münchen:1", Address("münchen", 1)),
    ],
)
def test_an_address_is_read_and_written_the_same(text: str, address: Address):
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":1",
        "host",
        "host:",
        "host:x",
        "host:-1",
        "host:65536",
        "host:\u0661",
        "host:" + "1" * 5000,
        "::1:80",
        "[x]:1",
        "[::1:1",
        "\x1b[31m:1",
        "a b:1",
        "a/b:1",
        "u@a:1",
        "a\n:1",
        "a?:1",
        "a#:1",
        "a%:1",
    ],
)
def test_what_no_url_can_hold_is_no_address(text: str):
    with pytest.raises(ValueError, match="expected host:port, received"):
        Address.parse(text)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://a:1", Address("a", 1)),
        ("http://a:1/", Address("a", 1)),
        ("a:1", Address("a", 1)),
        ("a", Address("a", 9400)),
        ("http://[::1]", Address("::1", 9400)),
        ("[::1]:5", Address("::1", 5)),
    ],
)
def test_a_url_may_leave_out_scheme_and_port(url: str, address: Address):
    assert Address.of_url(url) == address


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "expected a URL such as http://127.0.0.1:9400"),
        ("http://", "expected a URL such as http://127.0.0.1:9400"),
        ("http://[::1", "expected a URL such as http://127.0.0.1:9400"),
        ("\x1b[31m", "expected a URL such as http://127.0.0.1:9400"),
        ("http://a:", "expected a URL such as http://127.0.0.1:9400"),
        ("http://a:99999", "expected a URL such as http://127.0.0.1:9400"),
        ("kafka://a:1", "not kafka://"),
        ("http://me:secret@a:1", "without a user"),
        ("http://a:1/topics", "with nothing after it"),
        ("http://a:1?x", "with nothing after it"),
        ("http://a:1#x", "with nothing after it"),
    ],
)
def test_another_url_is_refused(url: str, message: str):
    with pytest.raises(ValueError, match=message):
        Address.of_url(url)
