"""No secret of a secured cluster is in a log line, an answer, an error, a metric or a file other than its own.

The nodes log at debug level. Every route of both listeners is called without credentials, with wrong ones, with a token
and with right ones; then everything that was received or written is searched.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import aiohttp
import pytest

from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.security import secure
from raftlog.security.routes import INTERNAL, PUBLIC, Route
from raftlog.security.session_tokens import PREFIX
from raftlog.wire import paths

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
USER, PASSWORD = "planted-user", "planted-right-Pa55word"
WRONG, TOKEN = "planted-wrong-Pa55word", "planted.token.4Zq8"
VARIABLES = {
    "topic": "notes", "partition": 0, "broker": 77, "group": "g", "transactional_id": "t", "set_id": "s",
    "user": "someone", "kind": "group", "key": "g", "file": "console.js",
}  # fmt: skip
BODIES: tuple[Mapping[str, object], ...] = (
    {"password": PASSWORD},
    {"password": [PASSWORD]},
    {"password": PASSWORD, "planted": 1},
    {"passwords": PASSWORD},
)
"""Bodies for every route; some are valid for creating a user."""
LOGIN_BODIES: tuple[Mapping[str, object], ...] = (
    *BODIES,
    {"user": USER, "password": PASSWORD},
    {"message": PASSWORD},
    {"message": [PASSWORD]},
    {"message": f"n,,n={USER},r={PASSWORD},p={PASSWORD},m=x"},
    {"message": f"c=biws,r={PASSWORD}{PASSWORD},p={PASSWORD}", "first": f"n,,n={USER},r={PASSWORD}"},
    {"message": f"c=biws,r=abcdefgh,p={PASSWORD}", "first": f"n,,n={USER},r=abcdefgh"},
    {"message": PASSWORD, "first": PASSWORD},
)
"""Bodies of logins by clients that are mistaken."""


def credentials(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    audit = {"audit_file": "audit.jsonl", "audit_to_log": True, "audit_interval_s": 1}
    extra = {"*": {"security": audit}}
    folder = tmp_path_factory.mktemp("planted") / "data"
    cluster = LocalCluster(folder, controllers=1, brokers=1, port=0, extra=extra)
    secure(cluster, "admin")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAFTLOG_LOG_LEVEL", "debug")
        with cluster:
            yield cluster


def context_of(cluster: LocalCluster, identity: str = "") -> ssl.SSLContext:
    files = cluster.data / "security"
    context = ssl.create_default_context(cafile=str(files / "ca.pem"))
    if identity:
        context.load_cert_chain(files / f"{identity}.pem", files / f"{identity}.key")
    return context


def secrets_of(cluster: LocalCluster) -> dict[str, bytes]:
    """Return what must not be found, by its name."""
    files = cluster.data / "security"
    found = {
        "cluster key": (files / "cluster.key").read_bytes().strip(),
        "quorum key": (cluster.data / "quorum.key").read_bytes().strip(),
        "password": PASSWORD.encode(),
        "wrong password": WRONG.encode(),
        "token": TOKEN.encode(),
        "session token": PREFIX.encode(),
        "right credentials": credentials(USER, PASSWORD).encode(),
        "wrong credentials": credentials(USER, WRONG).encode(),
    }
    for path in files.rglob("*.key"):
        if b"PRIVATE KEY" in (content := path.read_bytes()):
            found[str(path.relative_to(files))] = content.splitlines()[1]
    assert all(len(secret) >= 16 for secret in found.values())
    return found


async def everything_answered(cluster: LocalCluster) -> list[tuple[str, bytes]]:
    """Call every route in many ways, and return all answers with their heads."""
    answers: list[tuple[str, bytes]] = []

    async def ask(session: aiohttp.ClientSession, url: str, route: Route, header: str, body: object) -> None:
        names = {name: value for name, value in VARIABLES.items() if f"{{{name}}}" in route.path}
        path = paths.fill(route.path, **names)
        headers = {"Authorization": header} if header else {}
        what = f"{route.method} {path} with {header[:12] or 'none'}"
        async with session.request(route.method, f"{url}{path}", headers=headers, json=body) as answer:
            is_endless = answer.content_type == "text/event-stream"
            content = await (answer.content.readany() if is_endless else answer.content.read(1 << 20))
            answers.append((what, repr(answer.raw_headers).encode() + content))

    logins = (
        "",
        f"Basic {credentials(USER, WRONG)}",
        f"Bearer {TOKEN}",
        f"Basic {credentials(USER, PASSWORD)}",
        "Basic x",
    )
    limits = aiohttp.ClientTimeout(total=20)
    broker = cluster.node("broker-1").listeners
    controller = cluster.node("controller-101").listeners
    for url, routes, identity in (
        (f"https://{broker['public'].authority}", PUBLIC, "users/admin"),
        (f"https://{broker['internal'].authority}", INTERNAL, "broker-1/node"),
        (f"https://{controller['internal'].authority}", INTERNAL, "broker-1/node"),
    ):
        certified = aiohttp.TCPConnector(ssl=context_of(cluster, identity))
        async with aiohttp.ClientSession(connector=certified, timeout=limits) as session:
            for user in (USER, "admin"):
                path = f"{url}/v1/users/{user}"
                async with session.put(path, json={"password": PASSWORD}) as answer:
                    answers.append((path, await answer.read()))
            for route in (route for route in routes if "/fetch" not in route.path):
                bodies = BODIES if route.path == paths.USER else BODIES[:1]
                for body in LOGIN_BODIES if route.path == paths.LOGIN else bodies:
                    for login in logins:
                        await ask(session, url, route, login, body)
            for text in (PASSWORD, f'{{"password": {PASSWORD}}}', f"password={PASSWORD}"):
                for form in ("application/json", "application/x-www-form-urlencoded", "text/plain"):
                    path = f"{url}/v1/users/someone"
                    async with session.put(path, data=text, headers={"Content-Type": form}) as answer:
                        answers.append((f"{path} as {form}", await answer.read()))
    return answers


async def raw_answers(cluster: LocalCluster) -> list[tuple[str, bytes]]:
    """Send what is no HTTP, and HTTP without TLS, with secrets in it."""
    answers: list[tuple[str, bytes]] = []
    for name in cluster.names:
        for kind, address in cluster.node(name).listeners.items():
            for text in (f"GET /{PASSWORD} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n", f"{PASSWORD}\r\n\r\n"):
                for context in (None, context_of(cluster, "broker-1/node")):
                    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
                    writer.write(text.encode())
                    if writer.can_write_eof():
                        writer.write_eof()
                    answers.append((f"{name} {kind}", await _all_of(reader)))
                    writer.close()
    return answers


async def _all_of(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(1 << 16), 5)
    except (TimeoutError, OSError):
        return b""


def commands(cluster: LocalCluster, folder: Path) -> list[tuple[str, bytes]]:
    """Run commands that fail and succeed, as users do, and return what they print."""
    right, wrong = folder / "right", folder / "wrong"
    right.write_text(PASSWORD)
    wrong.write_text(WRONG)
    where = ("--bootstrap", cluster.bootstrap, "--ca-file", str(cluster.data / "security" / "ca.pem"), "--user", USER)
    printed = []
    for arguments in (
        ("topics", "list", *where, "--password-file", str(right)),
        ("topics", "list", *where, "--password-file", str(wrong)),
        ("produce", "notes", *where, "--password-file", str(wrong)),
        ("config", "show", *where, "--password-file", str(right)),
        ("topics", "list", "--bootstrap", f"https://{USER}:{PASSWORD}@127.0.0.1:1"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "raftlog", *arguments], capture_output=True, check=False, timeout=60
        )
        printed.append((" ".join(arguments[:2]), done.stdout + done.stderr))
    return printed


async def test_no_secret_is_shown(cluster: LocalCluster, tmp_path: Path):
    answers = [*await everything_answered(cluster), *await raw_answers(cluster), *commands(cluster, tmp_path)]
    cluster.restart("broker-1")
    cluster.restart("controller-101")
    cluster.wait_ready()
    secrets = secrets_of(cluster)
    own = {"cluster.key", "quorum.key", "node.key", "admin.key", "ca.key"}
    files = [path for path in cluster.data.rglob("*") if path.is_file() and path.name not in own]
    logs = [cluster.node(name).log_path for name in cluster.names]
    audits = [cluster.node(name).config_path.with_name("audit.jsonl") for name in cluster.names]
    assert {*logs, *audits} <= {*files}
    assert all(audit.read_bytes() for audit in audits)
    assert all(b" DEBUG " in log.read_bytes() for log in logs)

    shown = [(what, name) for what, answer in answers for name, secret in secrets.items() if secret in answer]
    written = [
        (str(path.relative_to(cluster.data)), name)
        for path in files
        for name, secret in secrets.items()
        if secret in path.read_bytes()
    ]
    verifiers = [what for what, answer in answers if b"stored_key" in answer or b"server_key" in answer]

    assert len(answers) > 300
    assert any(b"raftlog_" in answer for what, answer in answers if "/metrics" in what)
    assert shown == []
    assert written == []
    assert [what for what in verifiers if "/internal/" not in what] == []


def test_no_secret_is_in_a_process_list_or_an_environment(cluster: LocalCluster):
    secrets = secrets_of(cluster)
    for name in cluster.names:
        process = Path(f"/proc/{cluster.pid(name)}")
        seen = process.joinpath("cmdline").read_bytes() + process.joinpath("environ").read_bytes()
        assert [secret for secret, value in secrets.items() if value in seen] == []
