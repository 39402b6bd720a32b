"""Gathers facts about this machine and a node's files. Each look has a deadline, and a failure is a fact."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shutil
import ssl
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from raftlog.broker.open_files import ENOUGH, wanted_files
from raftlog.cli.daemon_threads import in_thread
from raftlog.cli.doctor.address_checks import is_local
from raftlog.cli.doctor.certificates import end_of
from raftlog.cli.doctor.facts import FileFacts, FolderFacts, MachineFacts, NodeSettings
from raftlog.cli.doctor.machine_texts import control_groups, cpus_allowed, filesystem_of, memory_of, number
from raftlog.config import NodeConfig
from raftlog.errors import ConfigError
from raftlog.model import Address
from raftlog.partition.storage.data_dir import QUARANTINED

SYNC_TRIES, SYNC_BYTES, SYNCS_S = 20, 4_096, 2.0
"""Of one folder: at most so many syncs, of so many bytes each, within so many seconds."""
_MAX_FILE_BYTES = 1 << 20
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_MAX_CERTIFICATES = 100
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_BROKER_BYTES, _CONTROLLER_BYTES, _STREAM_BYTES = 80 << 20, 150 << 20, 16 << 20


async def gather_machine(config_file: Path | None, data: Sequence[Path], *, timeout_s: float) -> MachineFacts:
    """Return facts about this machine, the node of a `node.toml`, and more data folders."""
    deadline = time.monotonic() + timeout_s
    config, settings_error = _load(config_file)
    folders = [*_folders(config), *data]
    named = _files(config)
    failures: dict[str, str] = {}

    async def look(work: Callable[[], Any], instead: Callable[[str], Any]) -> Any:
        try:
            return await in_thread(work, timeout_s=max(0.01, deadline - time.monotonic()))
        except TimeoutError:
            return instead("no answer before the deadline: the disk or its server hangs")
        except (OSError, ValueError) as error:
            return instead(error.strerror or str(error) if isinstance(error, OSError) else str(error))

    looks = [look(partial(look_at_folder, each, deadline), partial(_broken_folder, each)) for each in folders]
    looks += [look(partial(look_at_file, name, path), partial(_broken_file, name, path)) for name, path in named]
    system = look(_system, lambda why: failures.setdefault("system", why) and {})
    *found, system_facts = await asyncio.gather(*looks, system)
    return MachineFacts(
        now_s=time.time(),
        settings=None if config is None else _settings(config),
        settings_error=settings_error,
        folders=tuple(found[: len(folders)]),
        files=tuple(found[len(folders) :]),
        failures=failures,
        **system_facts,
    )


def _load(config_file: Path | None) -> tuple[NodeConfig | None, str]:
    if config_file is None:
        return None, ""
    try:
        return NodeConfig.load(config_file), ""
    except ConfigError as error:
        return None, error.message


def quorum_urls(config_file: Path | None) -> dict[int, str]:
    """Return the Raft listeners that a controller dials, by the voters' ids; none for other nodes."""
    config, _ = _load(config_file)
    if config is None or not config.is_controller:
        return {}
    has_tls = config.tls.quorum != "off"
    dialled = {voter.node_id: voter.quorum for voter in config.quorum.voters}
    return {
        node_id: Address.parse(config.dial.get(place.authority, place.authority))._replace(tls=has_tls).url
        for node_id, place in dialled.items()
    }


def _settings(config: NodeConfig) -> NodeSettings:
    broker = config.broker
    memory = _CONTROLLER_BYTES if config.is_controller else 0
    if config.is_broker:
        cleaner = broker.log_cleaner_dedupe_buffer_bytes if broker.log_cleaner_enable else 0
        memory += _BROKER_BYTES + broker.max_inflight_bytes + cleaner + broker.max_streams * _STREAM_BYTES
    places = (config.listeners.public, config.listeners.internal)
    return NodeSettings(
        cluster_id=config.cluster_id,
        node_id=config.node_id,
        is_broker=config.is_broker,
        nofile_wanted=wanted_files(broker.max_connections, segments=broker.max_open_segments)
        if config.is_broker
        else 0,
        memory_wanted=memory,
        open_listeners=tuple(str(place) for place in places if place is not None and not is_local(place.url)),
        authorizer=config.security.authorizer,
    )


def _folders(config: NodeConfig | None) -> list[Path]:
    if config is None:
        return []
    return [Path(name) for name in dict.fromkeys((config.data_dir, *(config.log_dirs if config.is_broker else ())))]


def _files(config: NodeConfig | None) -> list[tuple[str, Path]]:
    if config is None:
        return []
    named = {
        "security.cluster_key_file": config.security.cluster_key_file,
        "quorum.key_file": config.quorum.key_file if config.is_controller else "",
        "tls.key_file": config.tls.key_file,
        "tls.cert_file": config.tls.cert_file,
        "tls.ca_file": config.tls.ca_file,
    }
    return [(name, Path(path)) for name, path in named.items() if path]


def _broken_folder(folder: Path, why: str) -> FolderFacts:
    return FolderFacts(path=str(folder), error=why)


def _broken_file(setting: str, path: Path, why: str) -> FileFacts:
    return FileFacts(setting=setting, path=str(path), error=why)


def look_at_folder(folder: Path, deadline: float) -> FolderFacts:
    """Return facts about a data folder. May block for as long as its disk does.

    Args:
        deadline: no sync begins after this time of the monotonic clock.

    Raises:
        OSError: it cannot be looked at.
    """
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        return FolderFacts(path=str(folder), error=f"{there} is not a folder")
    usage = shutil.disk_usage(there)
    sync_ms, sync_error = _measure_syncs(there, deadline)
    return FolderFacts(
        path=str(folder),
        missing=there != folder.absolute(),
        filesystem=filesystem_of(_text(Path("/proc/self/mountinfo")), str(there.resolve())),
        total_bytes=usage.total,
        free_bytes=usage.free,
        sync_ms=sync_ms,
        sync_error=sync_error,
        quarantined=sum(1 for _ in (folder / "partitions").glob(f"*{QUARANTINED}*")),
        owner=_owner(folder / "meta.json"),
    )


def _measure_syncs(folder: Path, deadline: float) -> tuple[tuple[float, ...], str]:
    """Return the times of syncs in ms. The file has no name, so that nothing is left even after SIGKILL."""
    until = min(deadline, time.monotonic() + SYNCS_S)
    times = list[float]()
    try:
        with tempfile.TemporaryFile(dir=folder, prefix=".raftlog-doctor-", buffering=0) as file:
            while len(times) < SYNC_TRIES and time.monotonic() < until:
                begun = time.perf_counter()
                file.write(bytes(SYNC_BYTES))
                os.fdatasync(file.fileno())
                times.append(1_000 * (time.perf_counter() - begun))
    except OSError as error:
        return tuple(times), error.strerror or str(error)
    return tuple(times), ""


def _owner(path: Path) -> tuple[str, int] | None:
    try:
        document = json.loads(_text(path))
        return str(document["cluster_id"]), int(document["node_id"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def look_at_file(setting: str, path: Path) -> FileFacts:
    """Return facts about a key file, or about a file with certificates.

    Raises:
        OSError, ValueError: it cannot be read, or holds no certificate.
    """
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if setting.endswith("key_file"):
            return FileFacts(setting=setting, path=str(path), mode=mode & 0o7777)
        content = file.read(_MAX_FILE_BYTES)
    blocks = [found[0].decode("latin-1") for found in _PEM.finditer(content)][:_MAX_CERTIFICATES]
    if not blocks:
        raise ValueError("it holds no certificate in PEM")
    ends = [end_of(ssl.PEM_cert_to_DER_cert(block)) for block in blocks]
    return FileFacts(setting=setting, path=str(path), mode=mode & 0o7777, certificate_end_s=min(ends))


def _system() -> dict[str, Any]:
    memory, swap = memory_of(_text(Path("/proc/meminfo")))
    cpus = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0)
    for group in control_groups(_text(Path("/proc/self/cgroup"))):
        memory = min(memory, number(_text(_CONTROL_GROUPS / group / "memory.max")) or memory)
        cpus = min(cpus, cpus_allowed(_text(_CONTROL_GROUPS / group / "cpu.max")) or cpus)
    network = Path("/proc/sys/net/ipv4")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    swappiness = number(_text(Path("/proc/sys/vm/swappiness")))
    return {
        "cpus": round(cpus),
        "memory_bytes": memory,
        "swap_bytes": swap,
        "swappiness": -1 if swappiness is None else swappiness,
        "congestion": _text(network / "tcp_congestion_control").strip(),
        "congestions": tuple(_text(network / "tcp_allowed_congestion_control").split()),
        "nofile": ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH),
    }


def _text(path: Path) -> str:
    """Return a file's text; "": it cannot be read, as on another system than Linux."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
