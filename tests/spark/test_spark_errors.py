"""What a mistake looks like to the user: one line with cause and remedy, through Spark."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException

from pyspark_raftlog.background import BackgroundLoop
from pyspark_raftlog.error_output import HIDE, plain_errors
from pyspark_raftlog.options import ConnectionOptions
from pyspark_raftlog.parsing import parse_bootstrap
from pyspark_raftlog.wrong_server import NoBrokerError
from raftlog.errors import ConfigError, NotFoundError, RetriableError


def first_line(error: pytest.ExceptionInfo[PySparkException]) -> str:
    assert "Traceback" not in str(error.value)
    return str(error.value).splitlines()[0]


@pytest.fixture
def web_server() -> Iterator[str]:
    """Return the URL of a server that knows nothing of raftlog."""
    handler = http.server.SimpleHTTPRequestHandler
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    running = BackgroundLoop()
    yield running
    running.close()


def ask(loop: BackgroundLoop, bootstrap: str) -> None:
    cluster = loop.cluster(ConnectionOptions(bootstrap=parse_bootstrap(bootstrap), timeout_ms=300))
    loop.run(cluster.topics(["t"]))


def test_another_web_server_is_told_from_a_broker(loop, web_server):
    with pytest.raises(
        NoBrokerError, match=f"option 'bootstrap': {web_server} is not a raftlog broker: use the URL"
    ) as raised:
        ask(loop, web_server)

    assert not isinstance(raised.value, NotFoundError)  # That is a topic's loss, which may be allowed.
    assert "\n" not in raised.value.message
    assert "404" in raised.value.message


def test_a_broker_beside_another_web_server_is_found(loop, log, web_server):
    log.create("t")

    ask(loop, f"{web_server},{log.url}")


@pytest.mark.cluster
def test_a_controller_is_told_from_a_broker(loop, shared_cluster):
    address = shared_cluster.node(shared_cluster.controllers[0]).internal

    with pytest.raises(NoBrokerError, match=f"http://{address} is a controller, or .*: use the URL"):
        ask(loop, f"http://{address}")


def test_a_closed_port_is_said_without_a_word_of_tls(loop, free_ports):
    (port,) = free_ports(1)

    with pytest.raises(
        RetriableError, match=r"Connection refused \(no broker has answered yet: is http://.* right\?\)"
    ) as raised:
        ask(loop, f"http://127.0.0.1:{port}")

    assert "ssl" not in raised.value.message


@pytest.mark.spark
def test_a_mistake_in_a_query_is_one_line(spark, log):
    log.create("t")
    given = {"bootstrap": log.url, "subscribe": "t", "timeoutMs": "300"}

    def count(**options: str) -> None:
        spark.read.format("raftlog").options(**given | options).load().count()

    with pytest.raises(AnalysisException) as planned:
        count(startingOfsets="earliest")
    with pytest.raises(AnalysisException) as resolved:
        count(subscribe="nope")
    with pytest.raises(AnalysisException) as beyond:
        count(endingOffsets='{"t": {"0": 9}}')

    assert "ConfigError: unknown option 'startingofsets' (did you mean startingOffsets?)" in first_line(planned)
    assert "NotFoundError: no such topic: nope" in first_line(resolved)
    assert "expected an offset up to the end of the log, 0, received 9" in first_line(beyond)
    assert "failOnDataLoss" not in str(beyond.value)


@pytest.mark.spark
def test_a_mistake_in_a_task_is_one_line(spark, log):
    rows = spark.range(1).selectExpr("cast(id as string) value").write.format("raftlog")

    with pytest.raises(PySparkException) as raised:
        rows.options(bootstrap=log.url, topic="nope", timeoutMs="200").mode("append").save()

    assert "Traceback" not in str(raised.value)
    assert "NotFoundError: no such topic: nope" in str(raised.value).splitlines()[1]


@pytest.mark.spark
def test_a_mistake_in_a_stream_is_in_its_first_line(spark, log, tmp_path):
    rows = spark.readStream.format("raftlog").options(bootstrap=log.url, subscribe="nope", timeoutMs="200").load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path))

    with pytest.raises(StreamingQueryException) as raised:
        writer.trigger(availableNow=True).start().awaitTermination()

    assert "NotFoundError: no such topic: nope" in first_line(raised)


PROGRAM = """
import os, sys; from importlib.machinery import ModuleSpec
sys.modules['__main__'].__spec__ = ModuleSpec({program!r}, None)
from pyspark_raftlog.error_output import plain_errors
from raftlog.errors import ConfigError
try:
    with plain_errors():
        raise {raised}
except Exception:
    print(repr(os.environ.get('SPARK_HIDE_TRACEBACK')))
"""


@pytest.mark.parametrize(
    ("program", "raised", "given", "hidden"),
    [
        ("pyspark.daemon", "ConfigError('x')", None, "'1'"),
        ("pyspark.sql.worker.plan_data_source_read", "ConfigError('x')", None, "'1'"),
        ("pyspark.daemon", "ConfigError('x')", "", "''"),
        ("pyspark.daemon", "ValueError('a bug of ours')", None, "None"),
        ("somebody.else", "ConfigError('x')", None, "None"),
    ],
)
def test_tracebacks_are_hidden_of_what_is_said_on_purpose_in_a_process_that_ends(program, raised, given, hidden):
    environment = {name: value for name, value in os.environ.items() if name != HIDE}
    if given is not None:
        environment[HIDE] = given

    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM.format(program=program, raised=raised)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert found.stdout.strip() == hidden


def test_an_error_crosses_the_edge_as_it_is():
    with pytest.raises(ConfigError, match="x"), plain_errors():
        raise ConfigError("x")


@pytest.mark.spark
@pytest.mark.parametrize("available_now", [True, False])
def test_a_stream_with_wrong_options_says_which(spark, log, tmp_path, available_now):
    """Not what Spark stumbles over next: it stops a reader that was never made."""
    rows = spark.readStream.format("raftlog").options(bootstrap=log.url, subscribe="t", endingOffsets="latest").load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    trigger = {"availableNow": True} if available_now else {"processingTime": "0 seconds"}

    with pytest.raises(StreamingQueryException) as raised:
        writer.trigger(**trigger).start().awaitTermination()

    assert "ConfigError: endingOffsets, endingOffsetsByTimestamp and endingTimestamp are for batch" in first_line(
        raised
    )
