"""README's "Secure it", as a new user plays it: from an installed wheel to a record, without any settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the commands of an environment that has the wheel, and this one's packages but for raftlog."""
    wheels = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed: make install")
    folder = tmp_path_factory.mktemp("installed")
    (built,) = wheels.WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True, timeout=120)
    packages = folder / "venv" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    # Searched last. Its own .pth files, such as that of this checkout, are not read.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "venv" / "bin" / "python")]
    options = ["--quiet", "--no-deps", "--no-index", "--ignore-installed", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *options, str(built)], check=True, timeout=120)
    return folder / "venv" / "bin"


@pytest.fixture
def shell(installed: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAFTLOG", "PYTHON"))}
    yield {**kept, "PATH": f"{installed}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    subprocess.run([installed / "raftlog", "dev", "down", "--data", "secured"], cwd=tmp_path, check=True, timeout=60)


def run(text: str, environment: dict[str, str], folder: Path) -> str:
    command = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_new_user_gets_from_the_wheel_to_a_record(shell: dict[str, str], tmp_path: Path):
    section = (ROOT / "README.md").read_text("utf-8").partition("## Secure it")[2].partition("\n## ")[0]
    (start,) = re.findall(r"```console\n\$ (.*?)\n```", section)
    (use,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert str(ROOT) not in run("python -c 'import raftlog; print(raftlog.__file__)'", shell, tmp_path)

    shown = run(start.replace("9500", "0"), shell, tmp_path)
    said = run(use, shell, tmp_path)

    assert f"export RAFTLOG_CONFIG={tmp_path}/secured/security/client.toml" in shown
    assert said.endswith("hello\n")
    password = (tmp_path / "loader.password").read_text().strip()
    assert len(password) == 32
    assert password not in shown + said
