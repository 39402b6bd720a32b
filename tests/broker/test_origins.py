"""Pages of other sites: what a user's browser sends for them is refused on every listener, and nothing is done."""

from __future__ import annotations

from typing import Any

import pytest
from broker_support import http_to

from raftlog import Admin
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.wire.origins import Origins

OWN = {"Host": "broker-1.example:9400"}
BROWSER = {"Accept-Language": "en", "User-Agent": "Mozilla/5.0"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "any.alias.example"},
        {"Host": "10.1.2.3:9400", "User-Agent": "curl/8.0", "Accept": "*/*"},
        {**OWN, **BROWSER},
        {**OWN, **BROWSER, "Sec-Fetch-Site": "none"},
        {**OWN, **BROWSER, "Sec-Fetch-Site": "same-origin", "Origin": "http://broker-1.example:9400"},
        {**BROWSER, "Host": "127.0.0.1:9400"},
        {**BROWSER, "Host": "[::1]:9400"},
        {**BROWSER, "Host": "localhost:9400", "Origin": "http://localhost:9400"},
        {**BROWSER, "Host": "BROKER-1.example"},
        {**BROWSER, "Host": "logs.example"},
    ],
    ids=str,
)
def test_own_pages_and_other_programs_are_served(headers: dict[str, str]):
    Origins(["broker-1.example", "Logs.Example"]).require_own(headers)


@pytest.mark.parametrize(
    "headers",
    [
        {**OWN, "Sec-Fetch-Site": "cross-site"},
        {**OWN, "Sec-Fetch-Site": "same-site"},
        {**OWN, "Sec-Fetch-Site": "what comes next"},
        {**OWN, "Origin": "http://evil.example"},
        {**OWN, "Origin": "null"},
        {**OWN, "Origin": ""},
        {**OWN, "Origin": "http://broker-1.example:9401"},
        {**BROWSER, "Host": "rebound.example:9400"},
        {"Host": "rebound.example:9400", "Origin": "http://rebound.example:9400"},
        {"Host": "rebound.example:9400", "User-Agent": "Mozilla/5.0"},
        {"Host": "rebound.example:9400", "Referer": "http://rebound.example:9400/"},
        {**BROWSER, "Host": "127.0.0.1.evil.example"},
        {**BROWSER, "Host": ""},
        {**BROWSER, "Host": "[broken"},
    ],
    ids=str,
)
def test_other_sites_pages_are_refused(headers: dict[str, str]):
    with pytest.raises(InvalidRequestError) as refused:
        Origins(["broker-1.example"]).require_own(headers)
    assert (refused.value.code, refused.value.http_status) == (ErrorCode.FOREIGN_ORIGIN, 403)


FORM = "application/x-www-form-urlencoded"
FOREIGN = [
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Origin": "http://evil.example"},
    {"Origin": "http://evil.example"},
    {"Host": "rebound.example", **BROWSER},
]


@pytest.fixture
def urls(shared_cluster: LocalCluster) -> dict[str, str]:
    broker, controller = shared_cluster.node("broker-1"), shared_cluster.node(shared_cluster.controllers[0])
    return {
        "public": f"http://{broker.public}",
        "internal": f"http://{broker.internal}",
        "controller": f"http://{controller.internal}",
    }


@pytest.mark.cluster
@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_no_page_administers_a_cluster(
    shared_cluster: LocalCluster, topic_name: str, urls: dict[str, str], headers: dict[str, str]
):
    async with http_to(urls["public"]) as http, Admin(shared_cluster.bootstrap) as admin:
        await http.create(topic_name, replication_factor=3)
        assert (await http.produce(topic_name, "kept")).status == 200
        plain: dict[str, Any] = {"headers": {**headers, "Content-Type": FORM}}
        asked = [
            ("POST", f"{urls['public']}/v1/topics", b'{"topic": "%s-x"}' % topic_name.encode()),
            ("DELETE", f"{urls['public']}/v1/topics/{topic_name}", b""),
            ("POST", f"{urls['public']}/v1/topics/{topic_name}/records", b'{"records": [{"value": 1}]}'),
            ("POST", f"{urls['public']}/v1/topics/{topic_name}/partitions/0/delete-records", b'{"before_offset": 1}'),
            ("POST", f"{urls['public']}/v1/produce", b"\0" * 100),
            ("POST", f"{urls['public']}/v1/acls", b'{"acls": []}'),
            ("GET", f"{urls['public']}/v1/topics/{topic_name}/partitions/0/records?offset=0", b""),
            ("POST", f"{urls['internal']}/internal/v1/fetch", b"{}"),
            ("POST", f"{urls['internal']}/internal/v1/transactions/markers", b"{}"),
            ("POST", f"{urls['controller']}/internal/v1/brokers/register", b"{}"),
            ("GET", f"{urls['controller']}/livez", b""),
        ]
        for method, url, body in asked:
            reply = await http(method, url, data=body, **plain)
            assert reply.status == 403, (method, url, reply.status, reply.body)
            assert reply.code == "FOREIGN_ORIGIN"
        topics = {topic.topic for topic in await admin.list_topics()}
        assert topic_name in topics
        assert f"{topic_name}-x" not in topics
        assert await http.end(topic_name) == 1
        assert (await admin.list_offsets(topic_name, at="earliest"))[0].offset == 0


@pytest.mark.cluster
async def test_curl_with_its_form_goes_on_working(shared_cluster: LocalCluster, topic_name: str):
    """`curl -d` names a form's content type."""
    async with http_to(shared_cluster.bootstrap.split(",")[0]) as http:
        body = b'{"topic": "%s", "partitions": 1}' % topic_name.encode()
        headers = {"Content-Type": FORM, "User-Agent": "curl/8.0", "Host": "an.alias.example"}
        assert (await http("POST", "/v1/topics", data=body, headers=headers)).status == 201


@pytest.mark.cluster
@pytest.mark.parametrize("path", ["/v1/fetch", "/v1/topics"])
async def test_a_browser_that_says_nothing_but_its_name_is_refused_under_a_strange_host(
    shared_cluster: LocalCluster, path: str
):
    """Also on the lean path, whose requests have no other fields."""
    async with http_to(shared_cluster.bootstrap.split(",")[0]) as http:
        headers = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)", "Host": "rebound.example"}
        reply = await http("POST", path, data=b'{"partitions": []}', headers=headers)
        assert (reply.status, reply.code) == (403, "FOREIGN_ORIGIN")
