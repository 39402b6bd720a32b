#!/usr/bin/env bash
# Put Kafka's command-line tools, Connect, MirrorMaker and Streams under .tools/kafka-tools/, and Spark's Kafka source
# under .tools/kafka-spark/, by Maven. Tests of them are skipped without them.
set -u
cd "$(dirname "$0")/.."
for name in kafka-tools kafka-spark; do
    pom=scripts/$name-pom.xml
    if cmp -s "$pom" ".tools/$name/.installed"; then
        continue
    fi
    if ! scripts/install-java.sh || ! command -v mvn >/dev/null; then
        echo "Java 17 or newer, or Maven (Debian: maven), is missing: tests of Kafka's Java programs are skipped" >&2
        exit 0
    fi
    echo "Fetching $name by Maven"
    rm -rf ".tools/$name"
    if mvn --batch-mode --quiet --file "$pom" dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$PWD/.tools/$name/libs"; then
        cp "$pom" ".tools/$name/.installed"
    else
        echo "Maven could not fetch $name: its tests are skipped" >&2
    fi
done
