"""`raftlog storage check`, `storage cut` and `log dump` on unused folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from raftlog.cli.main import cli
from raftlog.config import TopicConfig
from raftlog.errors import ConfigError
from raftlog.partition.storage.data_dir import DataDir
from raftlog.partition.storage.log import PartitionLog
from raftlog.record import NewRecord, build_batch, stamp

TOPIC_ID = "d" * 32


def invoke(*arguments: str | Path, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    opened = DataDir.open(tmp_path / "data", cluster_id="c", node_id=1)
    log = PartitionLog.open(opened.partition_folder("t", 0, TOPIC_ID), TopicConfig(segment_bytes=4096))
    for offset in range(12):
        built = build_batch(
            [NewRecord(f"value {offset}".encode(), key=b"k", timestamp=1_700_000_000_000_000, headers=(("h", b"1"),))],
            producer_id=4,
            producer_epoch=0,
            base_sequence=offset,
        )
        stamp(built, base_offset=offset, leader_epoch=offset // 6)
        log.append(built)
    log.fsync()
    log.checkpoint(12, closing=True)
    log.close()
    opened.close()
    return tmp_path / "data"


def partition(data: Path) -> Path:
    return data / "partitions" / f"t-0-{TOPIC_ID}"


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def findings(data: Path, *, code: int = 1) -> list[dict]:
    before = everything(data)
    result = invoke("storage", "check", "--data", data, "--json")
    assert result.exit_code == code, result.output
    assert everything(data) == before
    return json.loads(result.stdout)["findings"]


def test_a_sound_folder_is_sound(data: Path):
    result = invoke("storage", "check", "--data", data)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing is wrong" in result.stderr
    assert findings(data, code=0) == []


@pytest.mark.parametrize(
    ("name", "at", "said"),
    [
        ("meta.json", 20, "meta.json"),
        ("run.json", 20, "run.json"),
        (f"partitions/t-0-{TOPIC_ID}/checkpoint.json", 15, "checksum"),
        (f"partitions/t-0-{TOPIC_ID}/leader-epochs.json", 30, ""),
        (f"partitions/t-0-{TOPIC_ID}/{0:020d}.log", 700, "is damaged at offset 1"),
        (f"partitions/t-0-{TOPIC_ID}/{0:020d}.index", 30, "built again from the log"),
    ],
)
def test_each_damaged_file_is_named(data: Path, name: str, at: int, said: str):
    flip(data / name, at)
    found = findings(data)
    assert {"damage"} == {finding["severity"] for finding in found}
    assert found[0]["path"] == str(data / name)
    assert said in found[0]["what"]


def test_a_torn_tail_is_a_note(data: Path):
    log = max(partition(data).glob("*.log"))
    (partition(data) / "checkpoint.json").unlink()
    log.write_bytes(log.read_bytes()[:-8])
    log.with_suffix(".index").unlink()
    (finding,) = findings(data, code=0)
    assert (finding["severity"], "torn tail after offset 11" in finding["what"]) == ("note", True)


def test_a_missing_segment_is_damage(data: Path):
    max(partition(data).glob("*.log")).unlink()
    assert "ends at offset 6, everything below 12 was on disk once" in findings(data)[0]["what"]


def test_epochs_that_do_not_fit_the_log_are_damage(data: Path):
    path = partition(data) / "leader-epochs.json"
    path.write_text(json.dumps({"version": 1, "epochs": [[0, 0], [1, 7]]}))
    assert "is of epoch 1, leader-epochs.json says 0" in findings(data)[0]["what"]


def test_a_folder_in_use_is_left_alone(data: Path):
    opened = DataDir.open(data, cluster_id="c", node_id=1)
    for arguments in (("check", "--data", data), ("cut", partition(data), "--yes")):
        result = invoke("storage", *arguments)
        assert result.exit_code == 1
        assert "in use by another process; stop the node first" in " ".join(result.stderr.split())
    opened.close()


def test_a_node_cannot_start_while_the_operator_is_asked(data: Path, monkeypatch: pytest.MonkeyPatch):
    """It would write into files that are then put aside."""
    started = list[str]()

    def ask(*_: object, **__: object) -> None:
        try:
            DataDir.open(data, cluster_id="c", node_id=1).close()
        except ConfigError as error:
            started.append(error.message)

    monkeypatch.setattr("raftlog.cli.storage.click.confirm", ask)
    second = max(partition(data).glob("*.log"))
    flip(second, second.stat().st_size - 20)
    assert invoke("storage", "cut", partition(data)).exit_code == 0
    assert len(started) == 1
    DataDir.open(data, cluster_id="c", node_id=1).close()


def test_cutting_keeps_what_is_sound_and_a_copy_of_the_rest(data: Path):
    second = max(partition(data).glob("*.log"))
    flip(second, second.stat().st_size - 20)
    damaged = second.read_bytes()
    end = int(second.stem) + 5

    asked = invoke("storage", "cut", partition(data), stdin="n\n")
    assert (asked.exit_code, asked.stdout) == (1, "")
    assert "will be lost. Continue?" in asked.stderr
    assert second.read_bytes() == damaged
    result = invoke("storage", "cut", partition(data), stdin="y\n")

    assert result.exit_code == 0, result.output
    assert f"ends at offset {end} now" in result.stdout
    aside = partition(data).with_name(partition(data).name + ".quarantined-1")
    assert (aside / second.name).read_bytes() == damaged
    log = PartitionLog.open(partition(data), TopicConfig(segment_bytes=4096))
    assert (log.log_start_offset, log.log_end_offset) == (0, end)
    assert log.epochs.entries == ((0, 0), (1, 6))
    log.close()
    (finding,) = findings(data, code=0)
    assert "put aside" in finding["what"]


def test_batches_as_lines(data: Path):
    result = invoke("log", "dump", partition(data), "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["base_offset"] for line in lines] == list(range(12))
    assert (lines[7]["leader_epoch"], lines[7]["producer_id"], lines[7]["base_sequence"]) == (1, 4, 7)
    segment = lines[0]["segment"]
    assert len(invoke("log", "dump", partition(data) / segment, "--json").stdout.splitlines()) < 12


def test_batches_as_a_table(data: Path):
    result = invoke("log", "dump", partition(data), "--from-offset", "10", "--limit", "1")
    head, row = result.stdout.splitlines()
    assert head.split()[:4] == ["BYTE", "OFFSET", "LAST", "RECORDS"]
    assert row.split()[1:4] == ["10", "10", "1"]
    assert "4/0" in row
    assert "2023-11-14T22:13:20.000+00:00" in row
    assert "stopped after 1 line" in result.stderr


def test_records(data: Path):
    result = invoke("log", "dump", partition(data), "--records", "--from-offset", "9", "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(line["offset"], line["value"]) for line in lines] == [(9, "value 9"), (10, "value 10"), (11, "value 11")]
    assert lines[0]["headers"] == [["h", "1"]]
    table = invoke("log", "dump", partition(data), "--records", "--from-offset", "11").stdout
    assert "value 11" in table
    assert "h=1" in table


def test_a_damaged_batch_ends_the_dump(data: Path):
    flip(min(partition(data).glob("*.log")), 900)
    result = invoke("log", "dump", partition(data), "--json")
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1
    assert "after the batch at byte 0" in result.stderr


@pytest.mark.parametrize("arguments", [("storage",), ("storage", "check"), ("storage", "cut"), ("log", "dump")])
def test_help(arguments: tuple[str, ...]):
    assert "Usage: " in invoke(*arguments, "--help").stdout
