#!/bin/sh
# Make a virtual environment with raftlog and all it needs, at the versions of constraints.txt.
set -eu
venv=$1

find_python() {
    for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3 python; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "raftlog needs Python 3.11 to 3.13; install it, or name it with PYTHON=/path/to/python3.11" >&2
    exit 1
}

python=$(find_python)
if [ ! -x "$venv/bin/python" ]; then
    echo "Making $venv with $("$python" --version)"
    "$python" -m venv "$venv" || {
        echo "cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2
        exit 1
    }
fi
echo "Installing raftlog and its packages into $venv (a minute or two the first time)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
