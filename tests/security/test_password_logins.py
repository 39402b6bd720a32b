"""Logins by password at a real cluster: other brokers, changed and deleted users, floods, every kind of client."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from secured_support import PASSWORDS, Caller, basic, bearer, caller, code_of, log_in, secured

from raftlog import Admin, AuthenticationError, Consumer, Producer, Security, blocking
from raftlog.cli.connectivity import NoClusterError, require_cluster
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import InvalidRequestError
from raftlog.model import Acl
from raftlog.transport import token_source
from raftlog.wire import paths

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
TOPIC, PASSWORD = "flights", "ann-secret-1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    audit = {"audit_file": "audit.jsonl", "audit_interval_s": 1}
    with secured(tmp_path_factory.mktemp("cluster"), **audit) as running:
        rules = [("write", "topic", TOPIC), ("read", "topic", TOPIC), ("read", "group", "g")]
        with blocking.Admin(running.bootstrap, security=as_user("admin")) as admin:
            admin.create_topic(TOPIC, partitions=2, replication_factor=2)
            admin.create_acls(
                [
                    Acl(principal=f"User:{user}", operation=operation, resource_type=kind, resource_name=name)
                    for operation, kind, name in rules
                    for user in ("ann", "ruled")
                ]
            )
        yield running


def as_user(user: str, password: str = "") -> Security:
    return Security(username=user, password=password or PASSWORDS[user])


@pytest.fixture
async def admin(cluster: LocalCluster):
    async with Admin(cluster.bootstrap, security=as_user("admin")) as found:
        yield found


@pytest.fixture
async def ask(cluster: LocalCluster):
    async with caller("") as found:
        yield found


async def status_at(ask: Caller, url: str, token: str, *, lean: bool) -> int:
    fetch = {"partitions": [{"topic": TOPIC, "partition": 0, "offset": 0}], "max_wait_ms": 0}
    method, path, body = ("POST", paths.FETCH, fetch) if lean else ("GET", paths.TOPICS, None)
    return (await ask(method, url + path, bearer(token), **({} if body is None else {"json": body})))[0]


async def until(wanted: int, ask: Caller, url: str, token: str, *, lean: bool) -> None:
    """Wait until a broker has the metadata; before, it answers as it did before the change."""
    async with asyncio.timeout(20):
        while await status_at(ask, url, token, lean=lean) != wanted:
            await asyncio.sleep(0.02)


async def put_user(admin: Admin, ask: Caller, cluster: LocalCluster, password: str) -> list[str]:
    """Set ann's password, and wait until every broker knows it."""
    await admin.put_user("ann", password)
    urls = [cluster.public_url(name) for name in cluster.brokers]
    async with asyncio.timeout(20):
        for url in urls:
            while (await log_in(ask, url, url, "ann", password))[0] != 200:
                await asyncio.sleep(0.2)
    return urls


async def test_a_token_counts_at_each_broker_until_the_password_changes(
    cluster: LocalCluster, admin: Admin, ask: Caller
):
    one, two = await put_user(admin, ask, cluster, PASSWORD)
    status, answer = await log_in(ask, one, two, "ann", PASSWORD)
    assert (status, answer["token_type"], answer["expires_in"]) == (200, "Bearer", 3_600)
    token = answer["access_token"]
    for url in (one, two):
        for lean in (True, False):
            assert await status_at(ask, url, token, lean=lean) == 200

    await put_user(admin, ask, cluster, "ann-secret-2")
    for url in (one, two):
        for lean in (True, False):
            await until(401, ask, url, token, lean=lean)
    assert (await log_in(ask, one, two, "ann", PASSWORD))[0] == 401

    token = (await log_in(ask, two, one, "ann", "ann-secret-2"))[1]["access_token"]
    assert await status_at(ask, one, token, lean=True) == 200
    await admin.delete_user("ann")
    for url in (one, two):
        await until(401, ask, url, token, lean=True)
    status, answer = await log_in(ask, one, two, "ann", "ann-secret-2")
    assert (status, answer["error"]["message"]) == (401, "the password of user ann, or the user, is wrong")


async def test_a_client_whose_password_changes_gets_an_error_and_works_with_the_new_one(
    cluster: LocalCluster, admin: Admin, ask: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(token_source, "LEAST_AGE_S", 0.0)
    await put_user(admin, ask, cluster, PASSWORD)
    file = tmp_path / "password"
    file.touch(0o600)
    file.write_text(PASSWORD)
    security = Security(username="ann", password_file=str(file))
    async with Producer(cluster.bootstrap, security=security) as producer:
        await producer.send(TOPIC, b"one", partition=0)
        await put_user(admin, ask, cluster, "ann-secret-3")
        file.write_text("ann-secret-3")
        for partition in (0, 1):
            await producer.send(TOPIC, b"two", partition=partition)


async def test_members_of_a_group_and_blocking_clients_log_in(cluster: LocalCluster):
    security = as_user("ruled")

    def write() -> None:
        with blocking.Producer(cluster.bootstrap, security=security) as producer:
            producer.send(TOPIC, b"blocking", partition=1)

    await asyncio.to_thread(write)
    async with Consumer(
        cluster.bootstrap, TOPIC, group_id="g", auto_offset_reset="earliest", security=security
    ) as consumer:
        values = list[bytes | None]()
        while b"blocking" not in values:
            values += [record.value for record in await consumer.fetch(max_records=10, max_wait_ms=20_000)]


async def test_a_wrong_password_is_one_clear_error(cluster: LocalCluster, admin: Admin):
    for user in ("admin", "no.such.user"):
        begun = time.monotonic()
        async with Admin(cluster.bootstrap, security=as_user(user, "wrong-secret")) as wrong:
            with pytest.raises(AuthenticationError, match=f"the password of user {user}, or the user, is wrong"):
                await wrong.list_topics()
        assert time.monotonic() - begun < 5
    async with Admin(cluster.bootstrap, security=Security(username="admin", password="x" * 9, login="basic")) as wrong:
        with pytest.raises(AuthenticationError, match="the password of user admin, or the user, is wrong"):
            await wrong.list_topics()


async def test_a_session_token_gets_no_longer_one(cluster: LocalCluster, ask: Caller):
    url = cluster.public_url("broker-1")
    token = (await log_in(ask, url, url, "admin", PASSWORDS["admin"]))[1]["access_token"]
    for body in ({}, {"message": ""}, {"message": token}, {"access_token": token}, {"message": "x", "first": token}):
        status, answer = await ask("POST", url + paths.LOGIN, bearer(token), json=body)
        assert (status, code_of(answer)) == (400, "INVALID_REQUEST"), answer
        assert token.encode() not in answer
    status, answer = await ask("GET", url + paths.LOGIN, bearer(token))
    assert status == 405


LONG = b'{"message": "' + b"n" * 70_000 + b'"}'


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b'{"message": 7}', b'{"message": "x", "other": 1}', LONG])
async def test_bodies_that_are_no_login_are_refused(cluster: LocalCluster, ask: Caller, body: bytes):
    url = cluster.public_url("broker-1") + paths.LOGIN
    status, answer = await ask("POST", url, {"Content-Type": "application/json"}, data=body)
    assert (status, code_of(answer)) == (400, "INVALID_REQUEST")
    assert len(answer) < 1_000


async def test_the_answer_with_the_token_is_not_cached(cluster: LocalCluster):
    import aiohttp  # noqa: PLC0415

    async with aiohttp.ClientSession() as session:
        url = cluster.public_url("broker-1") + paths.LOGIN
        async with session.post(url, json={"message": "n,,n=ann,r=abcdefgh"}) as answer:
            assert answer.headers["Cache-Control"] == "no-store"


async def test_a_flood_of_logins_delays_other_requests_little(cluster: LocalCluster, ask: Caller):
    url = cluster.public_url("broker-1")
    token = (await log_in(ask, url, url, "admin", PASSWORDS["admin"]))[1]["access_token"]
    stop = asyncio.Event()

    async def flood(number: int) -> int:
        sent = 0
        async with caller(url) as alone:
            while not stop.is_set():
                message = f"n,,n=user-{number}-{sent},r=abcdefgh"
                status, _ = await alone("POST", paths.LOGIN, json={"message": message})
                assert status in (200, 429)
                sent += 1
        return sent

    floods = [asyncio.create_task(flood(number)) for number in range(10)]
    longest = 0.0
    for _ in range(20):
        begun = time.perf_counter()
        assert await status_at(ask, url, token, lean=True) == 200
        longest = max(longest, time.perf_counter() - begun)
    stop.set()
    assert sum(await asyncio.gather(*floods)) > 20
    assert longest < 2


async def test_the_audit_log_names_logins_and_no_secret(cluster: LocalCluster, ask: Caller):
    url = cluster.public_url("broker-2")
    token = (await log_in(ask, url, url, "ruled", PASSWORDS["ruled"]))[1]["access_token"]
    await log_in(ask, url, url, "planted.user", "planted-secret")
    path = cluster.node("broker-2").config_path.with_name("audit.jsonl")
    async with asyncio.timeout(20):
        while b"planted.user" not in path.read_bytes():
            await asyncio.sleep(0.05)
    text = path.read_text()
    lines = [line for line in map(orjson.loads, text.splitlines()) if line.get("method") == "scram"]
    assert {"User:ruled", ""} <= {line["principal"] for line in lines}
    assert "the password of user planted.user, or the user, is wrong" in text
    for secret in (token, PASSWORDS["ruled"], "planted-secret", "n,,n="):
        assert secret not in text


@pytest.mark.parametrize("login", ["", "basic"])
async def test_the_command_line_logs_in(cluster: LocalCluster, login: str):
    environment = os.environ | {
        "RAFTLOG_BOOTSTRAP": cluster.bootstrap,
        "RAFTLOG_USERNAME": "admin",
        "RAFTLOG_PASSWORD": PASSWORDS["admin"],
        "RAFTLOG_LOGIN": login,
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "raftlog", "topics", "list"),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    assert TOPIC in output


async def test_the_command_line_explains_why_no_broker_answers_without_a_login(cluster: LocalCluster, ask: Caller):
    audit = cluster.node("broker-1").config_path.with_name("audit.jsonl")
    before = audit.read_text()
    for security in (as_user("admin"), as_user("admin", "wrong-secret"), as_user("an odd name", "x" * 9)):
        await require_cluster([cluster.public_url("broker-1")], security)
    controller = cluster.node("controller-101").internal.url
    with pytest.raises(NoClusterError, match="is not a broker's public listener"):
        await require_cluster([controller], as_user("admin"))
    with pytest.raises(NoClusterError, match="no broker listens at"):
        await require_cluster(["http://127.0.0.1:1"], as_user("admin"), within_ms=200)
    url = cluster.public_url("broker-1")
    await log_in(ask, url, url, "marker", "wrong-secret")  # Its line comes after those of the requests above.
    async with asyncio.timeout(20):
        while "marker" not in audit.read_text():
            await asyncio.sleep(0.05)
    assert "GET /v1/cluster" not in audit.read_text()[len(before) :]


async def test_basic_and_sessions_work_side_by_side(cluster: LocalCluster, ask: Caller):
    url = cluster.public_url("broker-1")
    assert (await ask("GET", url + paths.TOPICS, basic("admin")))[0] == 200
    async with Admin(cluster.bootstrap, security=as_user("admin")) as admin:
        assert TOPIC in [topic.topic for topic in await admin.list_topics()]


def test_a_cluster_without_a_key_says_what_is_missing(tmp_path: Path, stall_file: Path):
    assert stall_file.exists()
    basic_only = Security(username="admin", password="anything", login="basic")
    with (
        LocalCluster(tmp_path / "open", controllers=1, brokers=1, port=0) as plain,
        blocking.Admin(plain.bootstrap, security=as_user("admin")) as by_login,
        blocking.Admin(plain.bootstrap, security=basic_only) as by_basic,
    ):
        with pytest.raises(InvalidRequestError, match=r"logins need security.cluster_key_file .* login = \"basic\""):
            by_login.list_topics()
        assert by_basic.list_topics() == []
