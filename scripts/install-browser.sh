#!/bin/sh
# Tests of what web pages can do need Chromium: use the one that is there, or install it by apt where we are root.
set -eu

if command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Chromium with apt-get"
    apt-get install -y -qq --no-install-recommends chromium >/dev/null ||
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; }
else
    echo "Chromium is missing, which tests of web pages need: install it (Debian: chromium) and run this again" >&2
    exit 1
fi
