"""`raftlog export` on a real cluster: files are whole or not there, and another run goes on behind them."""

from __future__ import annotations

import csv
import errno
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from raftlog.blocking import Admin, Producer
from raftlog.cli import export_files
from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.main import cli

pytestmark = pytest.mark.cluster


@pytest.fixture
def topic(shared_cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RAFTLOG_BOOTSTRAP", shared_cluster.bootstrap)
    with Admin(shared_cluster.bootstrap) as admin:
        admin.create_topic(topic_name, partitions=2, replication_factor=3)
    send(shared_cluster, topic_name, 0, 10)
    return topic_name


def send(cluster: LocalCluster, topic: str, first: int, stop: int) -> None:
    with Producer(cluster.bootstrap) as producer:
        for number in range(first, stop):
            producer.send(topic, f"{number}".encode(), key=b"\xff", headers={"h": b"1"}, partition=0)


def export(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["export", *map(str, arguments)])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_a_file_of_each_format(topic: str, tmp_path: Path):
    for suffix in ("parquet", "arrows", "csv", "ndjson"):
        result = export(topic, "--to", tmp_path / f"all.{suffix}", "--json")
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        assert (told["records"], told["complete"], len(told["files"])) == (10, True, 1)

    expected = [f"{number}".encode() for number in range(10)]
    table = pq.read_table(tmp_path / "all.parquet")
    assert table.column_names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    assert table.column("value").to_pylist() == expected
    assert pa.ipc.open_stream(tmp_path / "all.arrows").read_all().column("value").to_pylist() == expected
    with (tmp_path / "all.csv").open(newline="") as file:
        assert [row["value"].encode() for row in csv.DictReader(file)] == expected
    lines = (tmp_path / "all.ndjson").read_text().splitlines()
    assert [json.loads(line)["value"].encode() for line in lines] == expected
    assert len(list(tmp_path.iterdir())) == 4


def test_a_folder_is_gone_on_with(shared_cluster: LocalCluster, topic: str, tmp_path: Path):
    to = tmp_path / "parts"
    first = export(topic, "--to", to, "--records-per-file", 4)
    assert first.exit_code == 0, first.output
    assert names(to) == [f"{topic}-0-{ends}.parquet" for ends in ("0-4", "4-8", "8-10")]

    (to / f".{topic}-0-10.new").write_bytes(b"of a run that was killed")
    send(shared_cluster, topic, 10, 13)
    assert export(topic, "--to", to, "--records-per-file", 4).exit_code == 0
    assert names(to)[:2] == [f"{topic}-0-0-4.parquet", f"{topic}-0-10-13.parquet"]
    assert export(topic, "--to", to).exit_code == 0
    assert len(names(to)) == 4
    assert not list(to.glob(".*.new"))

    read = duckdb.sql(f"SELECT count(*), count(DISTINCT \"offset\") FROM '{to}/*.parquet'").fetchall()
    assert read == [(13, 13)]


def test_a_folder_that_begins_later_is_not_said_to_have_everything(
    shared_cluster: LocalCluster, topic: str, tmp_path: Path
):
    to, now = tmp_path / "parts", datetime.now(UTC)
    with Producer(shared_cluster.bootstrap) as producer:
        for number in range(10):
            time = now - timedelta(hours=2 if number < 4 else 1)
            producer.send(topic, b"%d" % number, partition=1, timestamp=time)
    start = (now - timedelta(minutes=90)).isoformat()
    assert export(topic, "--to", to, "--from", start).exit_code == 0
    assert names(to) == [f"{topic}-0-0-10.parquet", f"{topic}-1-4-10.parquet"]
    refused = export(topic, "--to", to)
    assert refused.exit_code == 1
    said = " ".join(refused.stderr.split())
    assert "begin at offset 4, and now offsets from 0 on are to be exported: name another folder" in said
    send(shared_cluster, topic, 10, 12)
    assert export(topic, "--to", to, "--from", start).exit_code == 0
    assert len(names(to)) == 3


def test_what_was_deleted_before_it_was_exported_is_an_error(shared_cluster: LocalCluster, topic: str, tmp_path: Path):
    assert export(topic, "--to", tmp_path).exit_code == 0
    send(shared_cluster, topic, 10, 14)
    with Admin(shared_cluster.bootstrap) as admin:
        admin.delete_records(topic, 0, before=12)
    refused = export(topic, "--to", tmp_path)
    assert refused.exit_code == 1
    assert "offsets 10 to 11 were deleted from the log before they were exported" in refused.stderr
    assert export(topic, "--to", tmp_path, "--accept-gaps").exit_code == 0
    assert names(tmp_path) == [f"{topic}-0-0-10.parquet", f"{topic}-0-12-14.parquet"]


def test_a_disk_that_refuses_leaves_nothing_half_written(topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export_files.os, "fsync", refuse)
    result = export(topic, "--to", tmp_path / "all.parquet")
    assert (result.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "cannot write: No space left on device" in result.stderr


def test_a_disk_that_stays_full_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What waits in the file's buffer cannot be written when the file is closed, either."""
    file = export_files.NewFile(tmp_path, "x", "ndjson", ["offset"])
    inner = file._file

    class Full:
        write = inner.write

        def close(self) -> None:
            inner.close()
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(file, "_file", Full())
    file.drop()
    assert list(tmp_path.iterdir()) == []


def test_topics_whose_names_begin_alike_share_a_folder(tmp_path: Path):
    other = tmp_path / ".flights-late-0-5.new"
    ours = tmp_path / ".flights-0-5.new"
    other.touch()
    ours.touch()
    os.close(export_files.ExportFolder(tmp_path, "flights", "csv", {}).open("an id"))
    assert other.exists(), "an export of another topic is writing there"
    assert not ours.exists()


@pytest.mark.parametrize(
    ("name", "option", "says"),
    [
        ("all.parquet", ["--records-per-file", "5"], "--records-per-file has no effect"),
        ("all.parquet", ["--accept-gaps"], "--accept-gaps has no effect"),
        ("parts", ["--overwrite"], "--overwrite has no effect"),
    ],
)
def test_an_option_without_effect_is_refused(tmp_path: Path, name: str, option: list[str], says: str):
    """It was ignored: `--accept-gaps` for one file, say."""
    result = export("t", "--to", tmp_path / name, *option)
    assert result.exit_code == 2
    assert says in result.stderr


def test_mistakes(topic: str, tmp_path: Path):
    there = tmp_path / "there.csv"
    there.write_text("mine")
    assert "pass --overwrite" in export(topic, "--to", there).stderr
    assert there.read_text() == "mine"
    assert export(topic, "--to", there, "--overwrite").exit_code == 0
    assert "does not exist" in export("nowhere", "--to", tmp_path / "a.csv").stderr
    assert "received 'vlaue'" in export(topic, "--to", tmp_path / "a.csv", "--columns", "vlaue").stderr
    unwritable = export(topic, "--to", "/proc/nobody.csv")
    assert (unwritable.exit_code, unwritable.stdout) == (1, "")
    assert unwritable.stderr.splitlines()[-1].startswith("Error: cannot use /proc/"), unwritable.stderr
    folder = tmp_path / "folder"
    assert export(topic, "--to", folder).exit_code == 0
    assert "name another folder" in export(topic, "--to", folder, "--format", "csv").stderr
    assert not (tmp_path / "a.csv").exists()
