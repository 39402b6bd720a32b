"""Files that are missing, broken, of another kind, or protected: a clear error, at once."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from tls_support import Authority

from raftlog import Security
from raftlog.config import NodeConfig, TlsConfig
from raftlog.config.tls import TlsMode
from raftlog.errors import ConfigError
from raftlog.tls import TlsContext, TlsFiles, client_context, server_context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.new(tmp_path / "ca")


def protect(files: TlsFiles) -> None:
    """Give the key a password."""
    key = load_pem_private_key(Path(files.key_file).read_bytes(), None)
    sealed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    Path(files.key_file).write_bytes(sealed)


def spoil(name: str) -> Callable[[TlsFiles], None]:
    return lambda files: (Path(getattr(files, name)).write_text("no PEM"), None)[1]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda files: Path(files.key_file).unlink(), r"TLS: cannot read .*node\.key: No such file"),
        (spoil("cert_file"), r"is not PEM"),
        (spoil("key_file"), r"is not PEM"),
        (spoil("ca_file"), r"ca\.pem holds no CA certificate in PEM"),
        (protect, "the key has a password"),
    ],
)
def test_files_that_cannot_be_used_are_named(authority: Authority, damage: Callable[[TlsFiles], None], message: str):
    files = authority.issue("node")
    damage(files)
    for make in (server_context, client_context):
        with pytest.raises(ConfigError, match=message):
            make(files)


def test_neither_side_renegotiates_or_compresses(authority: Authority):
    for make in (server_context, client_context):
        context = make(authority.issue("node"))
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert context.options & ssl.OP_NO_COMPRESSION
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_key_of_another_certificate_is_named(authority: Authority):
    files, other = authority.issue("node"), authority.issue("other")
    with pytest.raises(ConfigError, match=r"other\.key does not belong to the certificate .*node\.pem"):
        server_context(TlsFiles(cert_file=files.cert_file, key_file=other.key_file))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"public": "required"}, "tls.cert_file, tls.key_file: missing"),
        ({"cert_file": "a"}, "tls.cert_file, tls.key_file: expected both or none"),
        ({"cert_file": "a", "key_file": "b", "public": "optional", "client_auth": "required"}, "tls.ca_file: missing"),
        ({"node_auth": "required"}, "tls.ca_file: missing"),
    ],
)
def test_settings_that_need_others_are_refused(settings: dict[str, str], message: str):
    with pytest.raises(ConfigError, match=message):
        TlsConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cert_file": "a"}, "cert_file, key_file: expected both or none"),
        ({"username": "a"}, "username, password or password_file: expected both or none"),
        ({"username": "a:b", "password": "c"}, "username: expected a name without a colon"),
        ({"token": "t", "username": "a", "password": "c"}, "token, username: expected one of them"),
        ({"token": "t\r\nX: y"}, "token: expected printable ASCII without spaces"),
        ({"token": 3}, "token: expected a str, received int"),
    ],
)
def test_credentials_that_cannot_be_sent_are_refused(options: dict[str, str], message: str):
    with pytest.raises(ConfigError, match=message):
        Security(**options)


def test_no_text_of_a_security_holds_a_secret():
    for security in (Security(username="alice", password="s3cret"), Security(token="s3cret")):
        assert "s3cret" not in repr(security) + str(security)


NODE = """
node_id = 1
roles = ["broker"]
cluster_id = "c"
data_dir = "d"
[listeners]
public = "h:2"
internal = "h:1"
[[quorum.voters]]
node_id = 101
quorum = "c:1"
internal = "c:2"
[tls]
cert_file = "c.pem"
key_file = "c.key"
internal = "{mode}"
"""


@pytest.mark.parametrize(("mode", "advertised"), [("off", "h:1"), ("optional", "h:1"), ("required", "https://h:1")])
def test_a_node_is_dialled_with_tls_only_once_it_requires_it(tmp_path: Path, mode: TlsMode, advertised: str):
    """A node that has no `[tls]` yet has no CA file, and fetches from this one."""
    file = tmp_path / "node.toml"
    file.write_text(NODE.format(mode=mode))
    config = NodeConfig.load(file)
    assert str(config.internal) == advertised


def test_files_that_are_replaced_while_the_first_context_is_made_are_loaded_later(authority: Authority):
    """The old certificate stayed in force, and expired in service."""
    files, made = authority.issue("node"), list[ssl.SSLContext]()

    def make(given: TlsFiles) -> ssl.SSLContext:
        made.append(server_context(given))
        if len(made) == 1:
            other = authority.issue("other")
            Path(other.cert_file).replace(files.cert_file)
            Path(other.key_file).replace(files.key_file)
        return made[-1]

    context = TlsContext(files, make)
    assert context.current is made[0]
    assert context.reload()
    assert context.current is made[1]


def test_a_missing_file_is_reported_once_and_found_again(authority: Authority, caplog: pytest.LogCaptureFixture):
    files = authority.issue("node")
    context, kept = TlsContext(files, server_context), Path(files.key_file)
    away = kept.rename(kept.with_suffix(".away"))
    assert [context.reload() for _ in range(3)] == [False] * 3
    assert caplog.text.count("the replaced TLS files cannot be used") == 1
    assert "node.key" in caplog.text
    away.rename(kept)
    assert context.reload()
