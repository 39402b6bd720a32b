"""`raftlog security`: certificates and keys for trials and small clusters."""

from __future__ import annotations

import re
import secrets
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftlog.cli.certificates import CertificateAuthority, Subject, require_hosts, write_private
from raftlog.cli.client_profiles import FILE, write_profiles
from raftlog.cli.cluster_plan import to_toml
from raftlog.cli.shared import json_option, print_done, say
from raftlog.errors import ConfigError
from raftlog.model import DEFAULT_PORT, Address

if TYPE_CHECKING:
    from raftlog.cli.local_cluster import LocalCluster

_NODE = re.compile(r"(broker|controller)-([0-9]{1,9})=(.+)")
_USER = re.compile(r"[\w.@-]{1,64}")
_KEY_BYTES = 32
TLS_MODES = {"public": "required", "internal": "required", "quorum": "required", "node_auth": "required"}


@click.group("security")
def command() -> None:
    """Make certificates and keys for a cluster.

    They are of a CA of the cluster's own, for trials and small clusters. Larger ones use their company's PKI:
    certificates with the same names work as well.
    """


def _nodes(context: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> list[tuple[str, str, str]]:
    nodes = []
    for text in texts:
        if (match := _NODE.fullmatch(text)) is None:
            raise click.BadParameter(
                f"expected NAME=HOST[,HOST...] such as broker-1=10.0.0.1,broker-1.example.org, received {text!r:.200}",
                context,
                parameter,
            )
        nodes.append((match[1], match[2], match[3]))
    return nodes


def _users(context: click.Context, parameter: click.Parameter, names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if _USER.fullmatch(name) is None:
            raise click.BadParameter(
                f"expected letters, digits and the characters . _ @ -, received {name!r:.80}", context, parameter
            )
    return names


_OPTIONS = (
    click.option(
        "--dir",
        "folder",
        required=True,
        type=click.Path(file_okay=False, path_type=Path),
        help="The folder for the files. Keep its ca.key secret, and off the nodes.",
    ),
    click.option(
        "--node",
        "nodes",
        multiple=True,
        callback=_nodes,
        help="A node, as in broker-1=10.0.0.1,broker-1.example.org: its id, and all its hosts. Repeatable.",
    ),
    click.option(
        "--admin",
        "admins",
        multiple=True,
        callback=_users,
        help="A user with a certificate that needs no access rule. The nodes enforce rules from their first start on. "
        "Repeatable.",
    ),
    click.option("--user", "users", multiple=True, callback=_users, help="A user with a certificate. Repeatable."),
    click.option("--cluster-id", required=True, help="The cluster_id in the nodes' settings."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What certificates are made for."""

    cluster_id: str
    nodes: Sequence[tuple[str, str, str]]
    """Each node's kind, number, and hosts separated by commas."""
    admins: Sequence[str]
    users: Sequence[str]

    @property
    def names(self) -> list[str]:
        return [f"{kind}-{number}" for kind, number, _ in self.nodes] + [*self.admins, *self.users]


def _with_options(make: Callable[[Path, _Wanted, bool], None]) -> Callable[..., None]:
    """Give a command the options of certificates."""

    @json_option
    @wraps(make)
    def run(*, folder: Path, as_json: bool, **wanted: Any) -> None:
        make(folder, _Wanted(**wanted), as_json)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


@command.command("init")
@_with_options
def init(folder: Path, wanted: _Wanted, as_json: bool) -> None:
    """Make a CA, certificates for nodes and users, and the cluster's key.

    Each node's folder gets node.toml lines to paste, and --dir a file with a profile for each user. Nothing that exists
    is replaced.
    """
    if not wanted.nodes:
        raise click.UsageError("name the nodes: --node broker-1=HOST --node controller-101=HOST ...")
    with _as_usage():
        authority = CertificateAuthority(folder)
        if not authority.exists:
            _require_none(folder, wanted)
        authority.create(f"raftlog {wanted.cluster_id}")
        write_private(folder / "cluster.key", secrets.token_hex(_KEY_BYTES).encode())
        _issue_all(authority, wanted)
        profiles = _write_profiles(folder, wanted.nodes, [*wanted.admins, *wanted.users])
    clients = f"export RAFTLOG_CONFIG={profiles}" if profiles else f"export RAFTLOG_CA_FILE={folder / 'ca.pem'}"
    names = ", ".join(wanted.names)
    print_done(f"{folder}: a CA, and certificates of {names}.", as_json, folder=str(folder), certificates=wanted.names)
    if not as_json:
        say("Copy each node's folder to its node, and its node-security.toml into node.toml.")
        say(f"Clients need {folder / 'ca.pem'}: {clients}")


def _require_none(folder: Path, wanted: _Wanted) -> None:
    """Raise if a file exists that would be replaced, or a host is none: before anything is made.

    Raises:
        ConfigError: with what is there.
    """
    for _, _, hosts in wanted.nodes:
        require_hosts([host.strip() for host in hosts.split(",")])
    made = [folder / "cluster.key", folder / FILE]
    made += [folder / f"{kind}-{number}" for kind, number, _ in wanted.nodes]
    made += [folder / "users" / f"{user}.key" for user in (*wanted.admins, *wanted.users)]
    if existing := [path for path in made if path.exists()]:
        raise ConfigError(f"{existing[0]} exists already, and is not replaced: name another --dir, or move it away")


def _write_profiles(folder: Path, nodes: Sequence[tuple[str, str, str]], users: Sequence[str]) -> Path | None:
    """Write profiles that use the brokers' first hosts and the default port."""
    hosts = dict.fromkeys(hosts.split(",")[0].strip() for kind, _, hosts in nodes if kind == "broker")
    brokers = [Address(host, DEFAULT_PORT, tls=True).url for host in hosts]
    return write_profiles(folder.absolute(), users, brokers) if users and brokers else None


@command.command("issue")
@_with_options
def issue(folder: Path, wanted: _Wanted, as_json: bool) -> None:
    """Make certificates of the CA in --dir: for more nodes and users, or to renew those that expire.

    A running node loads a replaced certificate by itself.
    """
    if not wanted.names:
        raise click.UsageError("name what to make certificates for: --node broker-1=HOST, or --user NAME")
    with _as_usage():
        _require_administrators(folder, wanted.admins)
        _issue_all(CertificateAuthority(folder), wanted)
    print_done(
        f"{folder}: certificates of {', '.join(wanted.names)}", as_json, folder=str(folder), certificates=wanted.names
    )


def _require_administrators(folder: Path, admins: Sequence[str]) -> None:
    """Raise if one of the users is no administrator yet: each running node would have to learn of it.

    Raises:
        ConfigError: with what to do.
    """
    known = _earlier_admins(folder)
    for name in admins:
        if name not in known:
            raise ConfigError(
                f"--admin {name}: the nodes do not know this administrator. Make the certificate with --user {name}, "
                f'and add "User:{name}" to security.super_users in the node.toml of every node, or allow it what it '
                "needs with raftlog acls create"
            )


def _issue_all(authority: CertificateAuthority, wanted: _Wanted) -> None:
    super_users = list(dict.fromkeys((*_earlier_admins(authority.folder), *wanted.admins)))
    for kind, number, hosts in wanted.nodes:
        issue_node(authority, kind, number, hosts.split(","), wanted.cluster_id, super_users)
    for user in (*wanted.admins, *wanted.users):
        authority.issue(Subject(name=user), authority.folder / "users")


def _earlier_admins(folder: Path) -> list[str]:
    """Return the super users of the nodes that have files already: a new node must not serve without rules."""
    names: list[str] = []
    for path in sorted(folder.glob("*/node-security.toml")):
        try:
            security = tomllib.loads(path.read_text("utf-8")).get("security", {})
            names += [name.removeprefix("User:") for name in security.get("super_users", ())]
        except (OSError, ValueError, AttributeError) as error:
            raise ConfigError(f"{path} cannot be used: {error}; correct it, or delete it to make it again") from None
    return names


def issue_node(
    authority: CertificateAuthority,
    kind: str,
    number: str,
    hosts: Sequence[str],
    cluster_id: str,
    admins: Sequence[str] = (),
) -> Path:
    """Write a node's files into a folder of its own, which is returned.

    Args:
        admins: super users; if there are any, the node enforces access rules.
    """
    folder = authority.folder / f"{kind}-{number}"
    uri = f"spiffe://{cluster_id}/{kind}/{number}"
    authority.issue(Subject(name="node", hosts=[host.strip() for host in hosts], uri=uri), folder)
    (folder / "ca.pem").write_bytes(authority.cert_path.read_bytes())
    key = authority.folder / "cluster.key"
    if key.exists():
        write_private(folder / "cluster.key", key.read_bytes())
    tls = {"cert_file": "node.pem", "key_file": "node.key", "ca_file": "ca.pem", **TLS_MODES}
    security: dict[str, object] = {"cluster_key_file": "cluster.key"}
    if kind == "broker":
        tls.pop("quorum")
    if admins:
        security |= {"authorizer": "acl", "super_users": [f"User:{name}" for name in admins]}
        tls["client_auth"] = "optional"
    document = {"tls": tls, "security": security}
    (folder / "node-security.toml").write_text(to_toml(document), "utf-8")
    return folder


def secure(cluster: LocalCluster, user: str, **more: object) -> CertificateAuthority:
    """Make certificates for a local cluster and a super user; switch TLS and access rules on from the next start on.

    Args:
        more: more settings of `[security]`.

    Raises:
        ConfigError: `cryptography` is not installed.
    """
    authority = CertificateAuthority(cluster.data / "security")
    if not authority.exists:
        authority.create(f"raftlog {cluster.cluster_id}")
        write_private(authority.folder / "cluster.key", secrets.token_hex(_KEY_BYTES).encode())
        authority.issue(Subject(name=user), authority.folder / "users")
    for name in cluster.names:
        kind, _, number = name.partition("-")
        if not (folder := authority.folder / name).exists():
            host = cluster.node(name).internal.host
            issue_node(authority, kind, number, list(dict.fromkeys((host, "localhost"))), cluster.cluster_id)
        place = f"../security/{folder.name}"
        files = {"cert_file": f"{place}/node.pem", "key_file": f"{place}/node.key", "ca_file": f"{place}/ca.pem"}
        security = {
            "authorizer": "acl",
            "super_users": [f"User:{user}"],
            "cluster_key_file": f"{place}/cluster.key",
            **more,
        }
        cluster.configure(name, tls={**files, **TLS_MODES, "client_auth": "optional"}, security=security)
    return authority


class _as_usage:  # noqa: N801  (reads as a statement)
    """Turn a `ConfigError` into the command line's error."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ConfigError):
            raise click.ClickException(error.message) from None
