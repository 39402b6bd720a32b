#!/usr/bin/env bash
# Put Kafka's command-line tools under .tools/kafka-tools/, by Maven. Tests of them are skipped without it.
set -u
cd "$(dirname "$0")/.."
if cmp -s scripts/kafka-tools-pom.xml .tools/kafka-tools/.installed; then
    exit 0
fi
if ! scripts/install-java.sh || ! command -v mvn >/dev/null; then
    echo "Java 17 or newer, or Maven (Debian: maven), is missing: tests of Kafka's command-line tools are skipped" >&2
    exit 0
fi
echo "Fetching Kafka's command-line tools by Maven"
if mvn --batch-mode --quiet --file scripts/kafka-tools-pom.xml dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$PWD/.tools/kafka-tools/libs"; then
    cp scripts/kafka-tools-pom.xml .tools/kafka-tools/.installed
else
    echo "Maven could not fetch Kafka's command-line tools: their tests are skipped" >&2
fi
