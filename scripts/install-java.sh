#!/bin/sh
# Spark runs on Java 17 or newer: use the one that is there, or install it by apt where we are root.
set -eu

java_major() {
    "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

java=${JAVA_HOME:+$JAVA_HOME/bin/java}
java=${java:-$(command -v java || true)}
if [ -n "$java" ] && [ "$(java_major "$java")" -ge 17 ] 2>/dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Java 17 with apt-get"
    apt-get install -y -qq openjdk-17-jre-headless >/dev/null ||
        { apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless >/dev/null; }
else
    echo "Java 17 is missing, which Spark needs: install it (Debian and Ubuntu: openjdk-17-jre-headless) and run this again" >&2
    exit 1
fi
