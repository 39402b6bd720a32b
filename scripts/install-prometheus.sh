#!/bin/sh
# Put prometheus and promtool into folder $1: those on PATH, or Debian's package, unpacked (nothing is installed).
set -eu
folder=$1
mkdir -p "$folder"
if command -v prometheus >/dev/null 2>&1 && command -v promtool >/dev/null 2>&1; then
    ln -sf "$(command -v prometheus)" "$(command -v promtool)" "$folder/"
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg >/dev/null 2>&1; then
    echo "prometheus and promtool are missing: put them on PATH and run this again" >&2
    exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "Unpacking Debian's prometheus into $folder"
(cd "$work" && { apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; } && dpkg -x prometheus_*.deb .)
mv "$work/usr/bin/prometheus" "$work/usr/bin/promtool" "$folder/"
