"""TLS files and credentials of queries: from options, on the driver and on executors, and never in what Spark shows."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.utils import CapturedException

from pyspark_raftlog.credentials import Credentials
from pyspark_raftlog.options import parse_options
from pyspark_raftlog.sink import parse_sink_options
from raftlog import Security
from raftlog.blocking import Admin
from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.security import secure
from raftlog.errors import ConfigError
from raftlog.model import Acl

pytestmark = pytest.mark.timeout(600)
PLANTED = "planted-Pa55word"
USER = "spark-user"
FILES = {
    "caFile": "ca.pem", "certFile": "c.pem", "keyFile": "c.key", "user": "ann", "passwordFile": "p", "login": "basic"
}  # fmt: skip


def test_source_and_sink_take_the_same_options():
    expected = Credentials(
        ca_file="ca.pem", cert_file="c.pem", key_file="c.key", user="ann", password_file="p", login="basic"
    )

    assert parse_options({"bootstrap": "h", "subscribe": "t", **FILES}).credentials == expected
    assert parse_sink_options({"bootstrap": "h", "topic": "t", **FILES}, overwrite=False).credentials == expected
    assert parse_options({"bootstrap": "h", "subscribe": "t"}).credentials == Credentials()


@pytest.mark.parametrize(
    "name", ["password", "token", "kafka.sasl.jaas.config", "kafka.ssl.keystore.key", "kafka.security.protocol"]
)
def test_a_secret_is_no_option_and_not_echoed(name: str):
    with pytest.raises(ConfigError, match="use caFile, certFile, keyFile, user, passwordFile and tokenFile") as caught:
        parse_options({"bootstrap": "h", "subscribe": "t", name: PLANTED})

    assert PLANTED not in caught.value.message


@pytest.mark.parametrize("name", ["bootstrap", "kafka.bootstrap.servers"])
def test_a_password_in_a_bootstrap_url_is_not_echoed(name: str):
    for url in (f"http://ann:{PLANTED}@h:9400", f"http://ann:{PLANTED},x@h"):
        with pytest.raises(ConfigError, match="not shown") as caught:
            parse_options({name: url, "subscribe": "t"})

        assert PLANTED not in caught.value.message


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"ca_file": "/missing"}, "TLS: cannot read /missing: No such file"),
        ({"ca_file": "{secret}"}, "holds no CA certificate in PEM"),
        ({"cert_file": "{secret}"}, "certFile, keyFile: expected both or none"),
        ({"cert_file": "{secret}", "key_file": "{secret}"}, "is not PEM"),
        ({"token_file": "/missing"}, "tokenFile: cannot read /missing: No such file"),
        ({"login": "plain"}, "login: expected scram or basic, received 'plain'"),
        ({"user": "ann"}, "user, password or passwordFile: expected both or none"),
        ({"user": "ann", "password_file": "/missing"}, "passwordFile: cannot read /missing: No such file"),
    ],
)
def test_a_mistake_is_one_line_with_the_options_name(given: dict[str, str], why: str, tmp_path: Path):
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text(PLANTED)
    credentials = Credentials(**{name: value.format(secret=secret) for name, value in given.items()})

    with pytest.raises(ConfigError, match=why) as caught:
        credentials.check()

    assert PLANTED not in caught.value.message
    assert "\n" not in caught.value.message


def test_an_executor_reports_how_a_file_gets_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pyspark.TaskContext, "get", object)

    with pytest.raises(ConfigError, match=r"cannot read /missing: .*; this is an executor: put the file there, too"):
        Credentials(user="ann", password_file="/missing").resolve()


def test_files_that_spark_distributes_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "secret-of-spark").write_text(f"{PLANTED}\n")
    monkeypatch.setattr(pyspark.SparkFiles, "_root_directory", str(tmp_path))

    security, authorization = Credentials(user="ann", password_file="secret-of-spark").resolve()

    assert security.password_file == str(tmp_path / "secret-of-spark")
    assert (security.login, security.read_password(), authorization) == ("scram", PLANTED, "")
    _, authorization = Credentials(user="ann", password_file="secret-of-spark", login="basic").resolve()
    assert authorization == Security(username="ann", password=PLANTED, login="basic").authorization != ""


def test_options_have_precedence_over_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "p").write_text("own")
    monkeypatch.setenv("RAFTLOG_CA_FILE", "/ca.pem")
    monkeypatch.setenv("RAFTLOG_USERNAME", "bob")
    monkeypatch.setenv("RAFTLOG_PASSWORD", "bobs")

    assert Credentials().resolve()[0] == Security(ca_file="/ca.pem", username="bob", password="bobs")
    own = Credentials(user="ann", password_file=str(tmp_path / "p")).resolve()[0]
    assert own == Security(ca_file="/ca.pem", username="ann", password_file=str(tmp_path / "p"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    few = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}
    folder = tmp_path_factory.mktemp("secured") / "data"
    cluster = LocalCluster(folder, controllers=1, brokers=1, port=0, extra={"*": {"broker": few}})
    secure(cluster, "admin")
    with cluster:
        files = cluster.data / "security"
        admin = Security(
            ca_file=str(files / "ca.pem"),
            cert_file=str(files / "users" / "admin.pem"),
            key_file=str(files / "users" / "admin.key"),
        )
        with Admin(cluster.bootstrap, security=admin) as client:
            client.put_user(USER, PLANTED)
            for topic in ("read", "written"):
                client.create_topic(topic, partitions=2, replication_factor=1)
            rules = [("read", "topic", "*"), ("write", "topic", "*"), ("write", "transactional_id", "*")]
            client.create_acls(
                [
                    Acl(principal=f"User:{USER}", operation=operation, resource_type=kind, resource_name=name)
                    for operation, kind, name in rules
                ]
            )
        yield cluster


@pytest.fixture
def options(cluster: LocalCluster, tmp_path: Path) -> dict[str, str]:
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text(f"{PLANTED}\n")
    ca_file = str(cluster.data / "security" / "ca.pem")
    return {"bootstrap": cluster.bootstrap, "caFile": ca_file, "user": USER, "passwordFile": str(password)}


@pytest.mark.cluster
def test_batches_and_streams_use_the_files_and_show_no_secret(
    spark: SparkSession, options: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    texts: list[str] = []
    rows = spark.createDataFrame([(b"k", b"one"), (b"k", b"two")], ["key", "value"])
    rows.write.format("raftlog").options(**options, topic="read").mode("append").save()

    frame = spark.read.format("raftlog").options(**options, subscribe="read").load()
    assert sorted(row.value for row in frame.collect()) == [b"one", b"two"]
    frame.explain(True)
    texts.append(frame._jdf.queryExecution().toString())

    stream = spark.readStream.format("raftlog").options(**options, subscribe="read", startingOffsets="earliest").load()
    query = (
        stream.select("key", "value")
        .writeStream.format("raftlog")
        .options(**options, topic="written", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.explain(True)
    assert query.awaitTermination(120)
    texts += [str(query.recentProgress), str(query.status), str(query)]
    written = spark.read.format("raftlog").options(**options, subscribe="written").load()
    assert sorted(row.value for row in written.collect()) == [b"one", b"two"]

    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    texts += [executions.apply(index).physicalPlanDescription() for index in range(executions.size())]
    texts += [path.read_text("latin-1") for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    texts += [pickle.dumps(parse_options({**options, "subscribe": "read"})).decode("latin-1"), *capfd.readouterr()]
    assert any("raftlog" in text for text in texts)
    assert [text for text in texts if PLANTED in text] == []


@pytest.mark.cluster
def test_spark_sends_the_file_to_executors(spark: SparkSession, options: dict[str, str]):
    spark.sparkContext.addFile(options["passwordFile"])

    frame = spark.read.format("raftlog").options(**{**options, "passwordFile": "password"}, subscribe="read").load()

    assert frame.count() >= 0


@pytest.mark.cluster
def test_a_missing_file_is_reported_before_a_task_starts(spark: SparkSession, options: dict[str, str], tmp_path: Path):
    wrong = {**options, "passwordFile": str(tmp_path / "missing")}
    why = f"passwordFile: cannot read {tmp_path / 'missing'}: No such file"
    rows = spark.createDataFrame([(b"one",)], ["value"])
    begun = spark.sparkContext.statusTracker().getActiveJobsIds()

    with pytest.raises(CapturedException) as read:
        spark.read.format("raftlog").options(**wrong, subscribe="read").load()
    with pytest.raises(CapturedException) as written:
        rows.write.format("raftlog").options(**wrong, topic="read").mode("append").save()
    for caught in (read, written):
        assert why in str(caught.value)
        assert "Traceback" not in str(caught.value)
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == begun


@pytest.mark.cluster
def test_a_refused_password_is_reported_in_one_line(spark: SparkSession, options: dict[str, str]):
    Path(options["passwordFile"]).write_text(f"wrong-{PLANTED}")

    with pytest.raises(CapturedException, match="the password") as caught:
        spark.read.format("raftlog").options(**options, subscribe="read").load().count()

    assert PLANTED not in str(caught.value)
