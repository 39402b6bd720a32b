#!/bin/sh
# Put toxiproxy-server at $1: the one on PATH, or built by Go (installed by apt where we are root).
set -eu
target=$1
version=v2.12.0
folder=$(dirname "$target")
mkdir -p "$folder"

if found=$(command -v toxiproxy-server 2>/dev/null); then
    ln -sf "$found" "$target"
    exit 0
fi
if [ ! -x "$target" ]; then
    if ! command -v go >/dev/null 2>&1; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
            echo "Installing Go with apt-get"
            apt-get install -y -qq golang-go >/dev/null || { apt-get update -qq && apt-get install -y -qq golang-go >/dev/null; }
        else
            echo "toxiproxy-server is missing: put it on PATH, or install Go 1.22 or newer and run this again" >&2
            exit 1
        fi
    fi
    echo "Building toxiproxy-server $version"
    GOBIN=$(cd "$folder" && pwd) go install "github.com/Shopify/toxiproxy/v2/cmd/server@$version"
    mv "$folder/server" "$target"
fi
