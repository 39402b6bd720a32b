"""Profiles in a TOML file: precedence, and errors in one line that names file and line, never a secret."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

import pytest

from raftlog import ConfigError, Profile, Security
from raftlog.client import secrets
from raftlog.client.profiles import ProfileFile, config_path, parse_profiles
from raftlog.client.secrets import read_secret, run_secret_command
from raftlog.client.settings import Place, settle

PATH = Path("/etc/raftlog/config.toml")
PLANTED = "hunter2-planted"
WHOLE = """
default_profile = "prod"

[profiles.dev]
bootstrap = "http://127.0.0.1:9400"

[profiles.prod]
bootstrap = ["https://a:9400", "https://b:9400"]
ca_file = "ca.pem"
cert_file = "/keys/me.pem"
key_file = "me.key"
user = "alice"
password_command = "pass show 'raftlog prod'"
"""


def test_a_file_is_read_with_names_relative_to_its_folder():
    found = parse_profiles(WHOLE, PATH)

    assert found.select() == found.profiles["prod"]
    assert found.select("dev") == Profile(name="dev", bootstrap=("http://127.0.0.1:9400",))
    assert found.profiles["prod"] == Profile(
        name="prod",
        bootstrap=("https://a:9400", "https://b:9400"),
        ca_file="/etc/raftlog/ca.pem",
        cert_file="/keys/me.pem",
        key_file="/etc/raftlog/me.key",
        user="alice",
        password_command=("pass", "show", "raftlog prod"),
    )


def test_the_only_profile_is_the_default_and_one_of_several_is_not():
    one = "[profiles.dev]\nbootstrap = 'http://a'"

    assert parse_profiles(one, PATH).select().name == "dev"
    assert parse_profiles(f"{one}\n[profiles.other]", PATH).select() is None
    assert parse_profiles("", PATH).select() is None


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("[profiles.a\n", ":1", "not valid TOML"),
        ("[profiles.a]\nuser = \n", ":2", "not valid TOML"),
        ("[profiles.a]\n[profiles.a]\n", ":2", "not valid TOML"),
        ("bootstrap = 'http://a'\n", ":1", "settings belong below a line [profiles.NAME]"),
        ("[prod]\nuser = 'a'\n", ":1", "unknown setting 'prod'"),
        ("[profiles.a]\n\n# a comment\nca_flie = 'x'\n", ":4", "unknown setting 'ca_flie' (did you mean ca_file?)"),
        ("[profiles.a]\nuser = 'a'\n[profiles.b]\nxyzzy = 1\n", ":4", "profile 'b': unknown setting 'xyzzy': expected"),
        ("[profiles.'my own']\ncert_file = 'x'\n", ":2", "cert_file, key_file: expected both or none"),
        ("[profiles.a]\nuser = 7\n", ":2", "user: expected text, received int"),
        ("[profiles.a]\nbootstrap = [1]\n", ":2", "bootstrap: expected text or a list of texts"),
        ('[profiles.a]\npassword_command = "x \'y"\n', ":2", "a quote is not closed"),
        ("[profiles.a]\npassword_file = 'x'\npassword_command = 'y'\n", ":3", "expected one of them"),
        (f"[profiles.a]\npassword = '{PLANTED}'\n", ":2", "holds no secrets; name a file (password_file)"),
        (f"[profiles.a]\ntoken = '{PLANTED}'\n", ":2", "token_command"),
        ("[profiles.a]\ntoken_file = 'x'\ntoken_command = 'y'\n", ":3", "token_file, token_command: expected one of"),
        ("[profiles.a]\nuser = 'x'\ntoken_file = 'y'\n", ":3", "user, token_file: expected one of them"),
        (f"[profiles.a]\nuser = ['{PLANTED}']\n", ":2", "expected text"),
        ("profiles = 3\n", ":1", "expected tables"),
        ("[profiles]\na = 3\n", ":1", "expected tables"),
        ("default_profile = 'b'\n[profiles.a]\n", ":1", "expected the name of a profile (a)"),
        ("default_profile = 3\n", ":1", "expected the name of a profile (none)"),
        ("profiles.a.usr = 3\n", "", "unknown setting 'usr' (did you mean user?)"),
    ],
)
def test_an_error_is_one_line_with_file_line_and_reason(text: str, where: str, why: str):
    with pytest.raises(ConfigError) as caught:
        parse_profiles(text, PATH)

    assert caught.value.message.startswith(f"{PATH}{where}: ")
    assert why in caught.value.message
    assert "\n" not in caught.value.message
    assert PLANTED not in caught.value.message


def test_a_missing_profile_is_reported_with_those_that_exist():
    with pytest.raises(
        ConfigError, match=re.escape(f"{PATH}: no profile 'prdo' (did you mean prod?); it has dev, prod")
    ):
        parse_profiles(WHOLE, PATH).select("prdo")
    with pytest.raises(ConfigError, match="it has none"):
        parse_profiles("", PATH).select("x")


def test_files_that_cannot_be_read_are_named(tmp_path: Path):
    (tmp_path / "latin").write_bytes(b"# \xe9")

    with pytest.raises(ConfigError, match="missing: No such file"):
        ProfileFile.load(tmp_path / "missing")
    with pytest.raises(ConfigError, match="Is a directory"):
        ProfileFile.load(tmp_path)
    with pytest.raises(ConfigError, match="latin: expected text in UTF-8"):
        ProfileFile.load(tmp_path / "latin")


def test_a_file_that_every_user_can_change_is_refused(tmp_path: Path):
    """It names commands: another user could have them run."""
    path = tmp_path / "config.toml"
    path.write_text("[profiles.a]\n")
    path.chmod(0o666)

    with pytest.raises(ConfigError, match="every user of this machine can change this file"):
        ProfileFile.load(path)


def test_the_file_is_given_or_named_by_the_environment_or_the_users_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/ann")

    assert config_path("/x/given", {"RAFTLOG_CONFIG": "/y"}) == Path("/x/given")
    assert config_path("", {"RAFTLOG_CONFIG": "~/y"}) == Path("/home/ann/y")
    assert config_path("", {"XDG_CONFIG_HOME": "/xdg"}) == Path("/xdg/raftlog/config.toml")
    assert config_path("", {}) == Path("/home/ann/.config/raftlog/config.toml")


def test_a_program_loads_a_profile_and_its_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text(f"{PLANTED}\n")
    config = tmp_path / "config.toml"
    config.write_text(
        "[profiles.file]\nuser = 'ann'\npassword_file = 'secret'\n"
        "[profiles.command]\nuser = 'ann'\npassword_command = ['cat', '" + str(secret) + "']\n"
        "[profiles.token]\ntoken_command = 'cat " + str(secret) + "'\n"
    )
    monkeypatch.setenv("RAFTLOG_CONFIG", str(config))

    by_file = Profile.load("file").security()
    by_command = Profile.load("command").security()

    assert by_file == Security(username="ann", password_file=str(secret))
    assert by_command == Security(username="ann", password=PLANTED)
    assert by_file.read_password() == by_command.read_password() == PLANTED
    provider = Profile.load("token").security().token_provider
    assert provider is not None
    assert provider() == PLANTED
    monkeypatch.setenv("RAFTLOG_PROFILE", "token")
    assert Profile.load().name == "token"
    for shown in (Profile.load("file"), by_file, by_command, Profile.load().security()):
        assert PLANTED not in f"{shown!r} {shown}"
    monkeypatch.delenv("RAFTLOG_PROFILE")
    with pytest.raises(ConfigError, match="no profile is chosen"):
        Profile.load(config=config)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "expected one line, received none"),
        (b"\n", "expected one line, received none"),
        (PLANTED.encode() + b"\nsecond\n", "received several"),
        (PLANTED.encode() + b"\xff", "expected text in UTF-8"),
        (PLANTED.encode() * 10_000, "more than 65536 bytes"),
    ],
)
def test_a_secret_is_one_line_and_never_in_an_error(tmp_path: Path, content: bytes, why: str):
    path = tmp_path / "secret"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match=why) as by_file:
        read_secret(str(path), "password_file")
    with pytest.raises(ConfigError, match=why) as by_command:
        run_secret_command(["cat", str(path)], "password_command")

    assert str(path) in by_file.value.message
    for caught in (by_file, by_command):
        assert PLANTED not in caught.value.message
        assert caught.value.__context__ is None


def test_windows_line_ends_and_pipes_are_read(tmp_path: Path):
    path = tmp_path / "secret"
    path.write_bytes(b" spaces stay \r\n")

    assert read_secret(str(path), "password_file") == " spaces stay "


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["/no/such/program"], "/no/such/program cannot be run: No such file"),
        (["sh", "-c", f"echo {PLANTED}; exit 3"], "sh failed with exit code 3"),
        (["sh", "-c", f"echo {PLANTED}; exec sleep 60"], "sh did not exit within 0.5 s"),
    ],
)
def test_a_command_that_fails_is_named_without_its_output(command: list[str], why: str):
    with pytest.raises(ConfigError, match=why) as caught:
        run_secret_command(command, "password_command", timeout_s=0.5)

    assert PLANTED not in caught.value.message
    assert not hasattr(caught.value.__context__, "output")


def test_a_command_reads_nothing_of_the_programs_input():
    with pytest.raises(ConfigError, match="received none"):
        run_secret_command(["cat"], "password_command")


def test_a_secret_that_every_user_can_read_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path, own = tmp_path / "secret", tmp_path / "own"
    for file in (path, own):
        file.write_text("x")
    path.chmod(0o644)
    own.chmod(0o640)
    with caplog.at_level(logging.WARNING, logger=secrets.__name__):
        for file in (path, path, own):
            read_secret(str(file), "password_file")

    assert caplog.messages == [f"{path}: every user of this machine can read this secret; run: chmod 600 {path}"]


def place(name: str, **given: str) -> Place:
    return Place(name, given)


def test_options_come_before_the_environment_and_the_profile():
    settled = settle(
        [
            place("option", bootstrap="o", ca_file=""),
            place("environment", ca_file="e"),
            place("profile", bootstrap="p", ca_file="p", user="ann", password_file="f"),
            place("default", bootstrap="d"),
        ]
    )

    assert {name: tuple(setting) for name, setting in settled.items()} == {
        "bootstrap": ("o", "option"),
        "ca_file": ("e", "environment"),
        "user": ("ann", "profile"),
        "password_file": ("f", "profile"),
    }


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        # A certificate and its key come from one place.
        (
            [place("o", cert_file="c"), place("p", cert_file="x", key_file="k")],
            {"cert_file": "c"},
        ),
        # A password of another user is not sent.
        ([place("o", user="bob"), place("p", user="ann", password_file="f")], {"user": "bob"}),
        ([place("o", user="ann"), place("p", user="ann", password_file="f")], {"user": "ann", "password_file": "f"}),
        ([place("o", user="bob"), place("e", password="x")], {"user": "bob", "password": "x"}),
        # A nearer password is the user's.
        ([place("o", password_file="f"), place("p", user="ann", password_command="c")],
         {"user": "ann", "password_file": "f"}),
        # A user that is named takes precedence over a token below, and a token over a user below.
        ([place("o", user="bob", password_file="f"), place("e", token="t")], {"user": "bob", "password_file": "f"}),
        ([place("o", user="bob"), place("e", token="t"), place("p", password_file="f")],
         {"user": "bob", "password_file": "f"}),
        ([place("e", token="t"), place("p", user="ann", password_file="f")], {"token": "t"}),
        ([place("e", user="ann"), place("p", token_command="t")], {"user": "ann"}),
    ],
)  # fmt: skip
def test_what_belongs_together_comes_from_one_place(places: list[Place], expected: dict[str, str]):
    assert {name: setting.value for name, setting in settle(places).items()} == expected


@pytest.mark.parametrize(
    "bootstrap",
    [
        f"http://ann:{PLANTED}@host:9400",
        [f"https://ann:{PLANTED}@host"],
        f"ann:{PLANTED}@host",
        f"http://ann:{PLANTED},more@host",
        f"http://ann:{PLANTED}/x@host",
    ],
)
def test_a_password_in_a_bootstrap_url_is_refused_and_not_echoed(bootstrap: str | list[str]):
    from raftlog.client.addresses import parse_bootstrap  # noqa: PLC0415

    with pytest.raises(ConfigError, match="without a user or a password") as caught:
        parse_bootstrap(bootstrap)

    assert PLANTED not in caught.value.message


def test_a_pipe_of_the_shell_is_read_once_for_all_clients_of_a_program():
    """`--password-file <(pass show cluster)`: a command has several clients, and each logs in."""
    out, into = os.pipe()
    os.write(into, b"secret\n")
    os.close(into)
    try:
        assert [read_secret(f"/dev/fd/{out}", "password_file") for _ in range(3)] == ["secret"] * 3
    finally:
        os.close(out)
