"""Node proofs, passwords, certificates and forwarded senders: what is accepted, and what is refused."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from raftlog.config import SecurityConfig
from raftlog.errors import AuthenticationError, ConfigError, InvalidRequestError
from raftlog.model import Address, UserCredential
from raftlog.security.guard import require_entries
from raftlog.security.identity import Peer, Sender, certificate_principal, forwarded, sender_of_forwarded
from raftlog.security.node_proof import VALID_S, NodeProofs
from raftlog.security.passwords import is_password_of, scram_credential
from raftlog.security.principal import Principal
from raftlog.security.routes import PUBLIC, Route, RouteTable
from raftlog.wire.saslprep import prepared

KEY = b"k" * 32
HERE = Address("10.0.0.1", 9410)
NOW = 1_732_540_000.0


def proofs(key: bytes = KEY, cluster: str = "c", own: str = "Broker:1", at: Address = HERE) -> NodeProofs:
    return NodeProofs(key, cluster, own, {str(at)})


def text_of(made: NodeProofs, to: Address = HERE, now_s: float = NOW) -> str:
    return made.headers(to, now_s)["Authorization"].partition(" ")[2]


class TestProofs:
    def test_a_proof_names_its_node_and_is_made_once_a_minute(self):
        made = proofs()
        assert proofs(own="Broker:2").verify(text_of(made), NOW + 10)[0] == Principal("Broker:1")
        assert made.headers(HERE, NOW) is made.headers(HERE, NOW + 1)
        assert text_of(made) != text_of(made, now_s=NOW + 61)

    @pytest.mark.parametrize("late_s", [-VALID_S - 1, VALID_S + 1])
    def test_an_old_or_future_proof_is_refused(self, late_s: float):
        with pytest.raises(AuthenticationError, match="clocks"):
            proofs().verify(text_of(proofs()), NOW + late_s)

    @pytest.mark.parametrize(
        ("receiver", "why"),
        [
            (proofs(key=b"x" * 32), "not made with this cluster's key"),
            (proofs(cluster="d"), "not made with this cluster's key"),
            (proofs(at=Address("10.0.0.2", 9410)), "is for 10.0.0.1:9410"),
        ],
    )
    def test_a_proof_of_another_key_cluster_or_address_is_refused(self, receiver: NodeProofs, why: str):
        with pytest.raises(AuthenticationError, match=why):
            receiver.verify(text_of(proofs()), NOW)

    @pytest.mark.parametrize(
        "change",
        [
            lambda text: text.replace("Broker:1", "Broker:2"),
            lambda text: text.replace("Broker:1", "Controller:1"),
            lambda text: text.replace("17325", "17326"),
            lambda text: text[:-1],
            lambda text: text + "0",
            lambda text: text.upper(),
            lambda _: "",
            lambda _: ";;;",
            lambda text: "User:root" + text[8:],
        ],
    )
    def test_a_changed_proof_is_refused(self, change: Callable[[str], str]):
        with pytest.raises(AuthenticationError):
            proofs().verify(change(text_of(proofs())), NOW)

    def test_a_short_key_is_refused_and_keys_are_not_shown(self):
        with pytest.raises(ConfigError, match="31 bytes"):
            proofs(key=b"k" * 31)
        assert "kkkk" not in repr(proofs())


class TestPasswords:
    def test_the_vector_of_rfc_7677(self):
        """The client's proof of the RFC's example verifies against our stored key."""
        salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
        credential = scram_credential("user", "pencil", salt, iterations=4096)
        message = (
            b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
        )
        signature = hmac.digest(bytes.fromhex(credential.server_key), message, "sha256")
        assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        assert is_password_of(credential, "pencil")
        assert not is_password_of(credential, "Pencil")

    def test_all_ways_to_type_a_password_are_equal(self):
        assert prepared("I\u00adX") == "IX"  # RFC 4013's examples: a soft hyphen,
        assert prepared("\u00aa") == "a"  # a compatibility character,
        assert prepared("\u2168") == "IX"
        assert prepared("e\u0301") == prepared("\u00e9") == "\u00e9"
        assert prepared("a\u00a0b") == "a b"

    @pytest.mark.parametrize("password", ["a\0b", "a\x7f", "\ud800", "x" * 1_025, "\ue000"])
    def test_passwords_with_control_characters_are_refused(self, password: str):
        with pytest.raises(InvalidRequestError, match="password"):
            prepared(password)

    @pytest.mark.parametrize(
        "broken",
        [{"salt": ""}, {"salt": "xy"}, {"iterations": 0}, {"stored_key": ""}, {"stored_key": "11"}, {"salt": "é"}],
    )
    def test_no_password_fits_a_malformed_credential(self, broken: dict[str, Any]):
        fields = {"user": "u", "iterations": 1, "salt": "00", "stored_key": "11" * 32, "server_key": ""} | broken
        assert not is_password_of(UserCredential(**fields), "")


class TestCertificates:
    @pytest.mark.parametrize(
        ("uri", "name"),
        [
            ("spiffe://c/broker/1", "Broker:1"),
            ("spiffe://c/controller/101", "Controller:101"),
            ("spiffe://c/user/alice", "User:alice"),
            ("spiffe://d/broker/1", None),
            ("spiffe://c/broker/x", None),
            ("spiffe://c/broker/1/2", None),
            ("spiffe://c/broker/1?x", None),
            ("spiffe://[/broker/1", None),
        ],
    )
    def test_spiffe_ids(self, uri: str, name: str | None):
        certificate = {"subject": ((("commonName", "admin"),),), "subjectAltName": (("DNS", "h"), ("URI", uri))}
        found = certificate_principal(certificate, "c")
        assert found == (None if name is None else Principal(name))

    @pytest.mark.parametrize(("common", "name"), [("alice", "User:alice"), ("Broker:1", None), ("a b", None)])
    def test_common_names_are_users(self, common: str, name: str | None):
        found = certificate_principal({"subject": ((("commonName", common),),)}, "c")
        assert (found and found.name) == name


@pytest.mark.parametrize(
    "sender",
    [
        Sender(Principal("User:alice"), "10.0.0.1"),
        Sender(Principal("User:a", ("Group:x,y", "Group:é")), "::1"),
        Sender(Principal("User:ANONYMOUS"), ""),
    ],
)
def test_a_forwarded_sender_arrives_unchanged(sender: Sender):
    (text,) = forwarded(sender).values()
    assert text.isascii()
    assert sender_of_forwarded(text) == sender


@pytest.mark.parametrize("text", ["", "x", "10.0.0.1,Broker:1", "10.0.0.1,Controller:1", "h,User:a" + ",g" * 200])
def test_other_forwarded_senders_are_refused(text: str):
    with pytest.raises(InvalidRequestError):
        sender_of_forwarded(text)


@pytest.mark.parametrize(
    ("address", "private"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("::ffff:127.0.0.1", True), ("10.0.0.1", False), ("", 0)],
)
def test_passwords_are_private_on_the_same_machine_and_with_tls(address: str, private: bool):
    assert Peer(address).is_private == bool(private)
    assert Peer(address, is_tls=True).is_private


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"authorizer": "acl", "cluster_key_file": "k"}, "super_users: missing"),
        ({"super_users": ("admin",)}, "expected User:NAME"),
        ({"super_users": ("User:*",)}, "expected User:NAME"),
        ({"super_users": ("User:a\n",)}, "expected User:NAME"),
    ],
)
def test_settings_that_would_lock_everyone_out_are_refused(settings: dict[str, Any], why: str):
    with pytest.raises(ConfigError, match=why):
        SecurityConfig(**settings)


def test_a_route_without_an_entry_is_found():
    table = RouteTable(PUBLIC)
    table.require_complete([("GET", "/v1/topics"), ("HEAD", "/v1/topics/{topic}")])
    with pytest.raises(RuntimeError, match="POST /v1/new"):
        table.require_complete([("GET", "/v1/topics"), ("POST", "/v1/new")])
    assert len({(route.method, route.path) for route in PUBLIC}) == len(PUBLIC)


async def test_an_application_with_a_route_without_an_entry_does_not_start():
    async def handle(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.router.add_get("/v1/topics", handle)
    require_entries(app, RouteTable(PUBLIC))
    app.router.add_put("/v1/topics", handle)
    with pytest.raises(RuntimeError, match="PUT /v1/topics"):
        require_entries(app, RouteTable(PUBLIC))


@pytest.mark.parametrize("route", PUBLIC, ids=lambda route: f"{route.method} {route.path}")
def test_variables_of_rights_are_in_the_path(route: Route):
    assert all(f"{{{right.variable}}}" in route.path for right in route.rights if right.variable)
