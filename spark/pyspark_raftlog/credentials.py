"""TLS files and credentials of a query. Options name files; what Spark pickles and shows never holds a secret.

The driver and each executor read the files themselves. A name that is not absolute may also be of a file that Spark
distributes (`spark.files`, `--files`, `SparkContext.addFile`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from raftlog.client.profiles import security_of
from raftlog.client.security import Security, read_token
from raftlog.client.settings import Place, from_variables, settle
from raftlog.errors import ConfigError

_FILES = ("ca_file", "cert_file", "key_file", "password_file", "token_file")
_SPARKS_NAMES = {
    "ca_file": "caFile",
    "cert_file": "certFile",
    "key_file": "keyFile",
    "password_file": "passwordFile",
    "token_file": "tokenFile",
    "username": "user",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The options; "" for those that were not given."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    user: str = ""
    password_file: str = ""
    login: str = ""
    token_file: str = ""

    def check(self) -> None:
        """Read every file, on the driver: a mistake is reported before a task starts.

        Raises:
            ConfigError: a file is missing or cannot be used, or an option needs another one.
        """
        security, _ = self.resolve()
        with _in_sparks_words():
            security.tls_context()
            if security.token_file:
                read_token(security.token_file)

    def resolve(self) -> tuple[Security, str]:
        """Return what the options and this process's variables say, and a fixed field `Authorization`.

        Options have precedence. The password's file is read, now and at each login, so a new task uses a replaced one.

        Raises:
            ConfigError: a file is missing or cannot be used, or an option needs another one.
        """
        given: Mapping[str, str] = asdict(self)
        options = {name: located(value) if name in _FILES else value for name, value in given.items()}
        with _in_sparks_words():
            security = security_of(settle([Place("option", options), from_variables(os.environ)]))
            if security.username:
                security.read_password()
            return security, security.authorization


def located(name: str) -> str:
    """Return the path of a file: as it is named, or of Spark's copy of it in this process."""
    if not name or Path(name).is_absolute() or Path(name).exists():
        return name
    from pyspark import SparkFiles  # noqa: PLC0415  (only where it is needed)

    folder = getattr(SparkFiles, "_root_directory", None)
    copy = Path(folder) / name if folder else None
    return str(copy) if copy is not None and copy.exists() else str(Path(name).absolute())


@contextmanager
def _in_sparks_words() -> Iterator[None]:
    """Name options in errors as Spark's users write them, and on an executor say how a file gets there."""
    try:
        yield
    except ConfigError as error:
        text = re.sub(rf"\b({'|'.join(_SPARKS_NAMES)})\b", lambda found: _SPARKS_NAMES[found[0]], error.message)
        raise ConfigError(f"{text}{_hint()}") from None


def _hint() -> str:
    from pyspark import TaskContext  # noqa: PLC0415  (only where something is wrong)

    if TaskContext.get() is None:
        return ""
    return "; this is an executor: put the file there, too, or send it by spark.files and name it without a folder"
