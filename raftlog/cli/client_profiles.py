"""Writes the file with profiles of a new cluster's users, and shows how each kind of client uses them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from raftlog.cli.cluster_plan import to_toml, toml_key
from raftlog.client.profiles import Profile

FILE = "client.toml"


def write_profiles(folder: Path, users: Sequence[str], bootstrap: Sequence[str]) -> Path:
    """Write a profile for each user with a certificate in the CA's folder; the first is the default."""
    text = to_toml({"default_profile": users[0]})
    for user in users:
        files = {"ca_file": "ca.pem", "cert_file": f"users/{user}.pem", "key_file": f"users/{user}.key"}
        text += f"\n[profiles.{toml_key(user)}]\n{to_toml({'bootstrap': list(bootstrap), **files})}"
    path = folder / FILE
    path.write_text(text, "utf-8")
    return path


def client_lines(path: Path, topic: str) -> list[str]:
    """Return a line for the command line, curl, Python and Spark that reaches the cluster by the default profile."""
    profile = Profile.load(config=path)
    url = profile.bootstrap[0]
    ca, cert, key = (shlex.quote(name) for name in (profile.ca_file, profile.cert_file, profile.key_file))
    python = (
        f"import raftlog.blocking; profile = raftlog.Profile.load(config={str(path)!r}); "
        "print(raftlog.blocking.Admin(profile.bootstrap, security=profile.security()).list_topics())"
    )
    options = {
        "bootstrap": url,
        "caFile": profile.ca_file,
        "certFile": profile.cert_file,
        "keyFile": profile.key_file,
        "subscribe": topic,
    }
    chosen = "".join(f".option({name!r}, {value!r})" for name, value in options.items())
    return [
        f"export RAFTLOG_CONFIG={shlex.quote(str(path))}",
        f"curl --cacert {ca} --cert {cert} --key {key} {url}/v1/topics",
        f"python -c {shlex.quote(python)}",
        f"Spark: spark.read.format('raftlog'){chosen}.load()",
    ]
