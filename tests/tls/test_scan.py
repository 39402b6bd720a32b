"""A scan of all three kinds of listener, as testssl and `openssl s_client` do: what must be refused is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.security import secure

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
LISTENERS = [
    ("broker-1", "public"),
    ("broker-1", "internal"),
    ("controller-101", "internal"),
    ("controller-101", "quorum"),
]
WEAK = (
    "AES128-SHA",  # No forward secrecy.
    "AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES128-SHA",  # No authenticated encryption.
    "ECDHE-ECDSA-AES256-SHA384",
    "ECDHE-ECDSA-AES128-CCM8",
    "ECDHE-ECDSA-CAMELLIA128-SHA256",
    "ECDHE-ECDSA-NULL-SHA",
    "AECDH-AES128-SHA",
    "AECDH-NULL-SHA",
    "DHE-RSA-AES128-GCM-SHA256",
    "PSK-AES128-GCM-SHA256",
    "NULL-SHA256",
)
STRONG = ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("scanned") / "data", controllers=1, brokers=1, port=0)
    secure(cluster, "admin")
    with cluster:
        yield cluster


@pytest.fixture(params=LISTENERS, ids=" ".join)
def target(cluster: LocalCluster, request: pytest.FixtureRequest) -> list[str]:
    """Options of `openssl s_client` for a listener, with the certificate of a node."""
    name, kind = request.param
    files = cluster.data / "security"
    node = files / "broker-1" / "node"
    address = cluster.node(name).listeners[kind]
    pair = ["-cert", f"{node}.pem", "-key", f"{node}.key", "-CAfile", str(files / "ca.pem")]
    return ["-connect", address.authority, *pair, "-verify_return_error"]


def s_client(*options: str) -> str:
    command = [shutil.which("openssl") or "openssl", "s_client", *options]
    done = subprocess.run(
        command, input="Q\n", capture_output=True, text=True, check=False, timeout=30, errors="replace"
    )
    return done.stdout + done.stderr


def is_accepted(output: str) -> bool:
    return re.search(r"Cipher is (?!\(NONE\))\S", output) is not None and "Verify return code: 0 (ok)" in output


def is_refused_by_the_server(output: str) -> bool:
    """Return whether the client offered something, and the server ended the connection, with an alert or without."""
    offered = re.search(r"written ([1-9]\d*) bytes", output) is not None
    return offered and not is_accepted(output) and re.search("alert|unexpected eof|errno=104", output) is not None


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_modern_versions_are_accepted_without_compression(target: list[str], version: str):
    output = s_client(*target, version)

    assert is_accepted(output), output
    assert "Compression: NONE" in output


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_old_versions_are_refused(target: list[str], version: str):
    """`SECLEVEL=0` lets the client offer them: without it the refusal would be the client's own."""
    output = s_client(*target, version, "-cipher", "ALL:@SECLEVEL=0")

    assert is_refused_by_the_server(output), output


@pytest.mark.parametrize("cipher", STRONG)
def test_strong_ciphers_are_accepted(target: list[str], cipher: str):
    assert f"Cipher is {cipher}" in s_client(*target, "-tls1_2", "-cipher", cipher)


def test_weak_ciphers_are_refused(target: list[str]):
    """Each cipher that this OpenSSL can offer, alone, and all but the strong ones at once."""
    offered = 0
    for cipher in (*WEAK, f"ALL:COMPLEMENTOFALL:!{':!'.join(STRONG)}"):
        output = s_client(*target, "-tls1_2", "-cipher", f"{cipher}:@SECLEVEL=0")
        if "no cipher match" in output or "no ciphers available" in output:
            continue  # This OpenSSL was built without it.
        offered += 1
        assert is_refused_by_the_server(output), f"{cipher}\n{output}"
    assert offered >= 8


def test_clients_cannot_renegotiate(target: list[str], tmp_path: Path):
    for _ in range(30):
        output = renegotiated(target, tmp_path / "shown")
        # A voter speaks first. The client takes data amid its own handshake for an error, and has seen no answer to it.
        if "unexpected record" not in output:
            break

    assert "RENEGOTIATING" in output
    assert "no renegotiation" in output, output


def renegotiated(target: list[str], shown: Path) -> str:
    """Have a client request another handshake; return what it shows until the server has answered."""
    command = [shutil.which("openssl") or "openssl", "s_client", *target, "-tls1_2"]
    with (
        shown.open("wb") as file,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT) as client,
    ):
        assert client.stdin is not None
        client.stdin.write(b"R\n")
        client.stdin.flush()  # At the end of its input, the client would not wait for the answer.
        client.wait(timeout=30)
    return shown.read_text(errors="replace")


def test_a_version_is_not_lowered_by_a_fallback(target: list[str]):
    """A client that falls back announces it (RFC 7507), and is refused: an attacker cannot lower TLS 1.3 to 1.2."""
    output = s_client(*target, "-tls1_2", "-fallback_scsv")

    assert is_refused_by_the_server(output), output


def test_text_gets_no_answer_but_the_advice_to_use_tls(cluster: LocalCluster):
    for name, kind in LISTENERS:
        url = f"http://{cluster.node(name).listeners[kind].authority}/v1/topics"
        command = ["curl", "-s", "-m", "5", url, "-u", "admin:wrong"]
        shown = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout
        assert not shown or "TLS_REQUIRED" in shown, shown
