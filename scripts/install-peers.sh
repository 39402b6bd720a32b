#!/bin/bash
# Put the peers of `make bench-peers` under .tools/: all, or those named (kafka jetstream rabbitmq redis).
#
# Kafka comes by Maven, JetStream's nats-server by Go, RabbitMQ and Redis by apt where we are root (their services are
# not started), the Python clients into .tools/peers-venv, uvloop for raftlog's nodes into .tools/fast. What is there
# already is left alone. A peer that cannot be had is said so, and the others are installed all the same; exit 1 then.
set -u
cd "$(dirname "$0")/.."
tools=.tools
nats_version=v2.15.2
mkdir -p "$tools"
missing=()

say_missing() {
    echo "MISSING $1: $2" >&2
    missing+=("$1")
}

apt_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    # Debian's packages start their services at once: ours run on ports and folders of their own.
    local policy=/usr/sbin/policy-rc.d ours=
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && ours=1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 ||
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
    local status=$?
    [ -z "$ours" ] || rm -f $policy
    return $status
}

install_clients() {
    local venv=$tools/peers-venv python=${PYTHON:-}
    if [ -z "$python" ]; then
        python=.venv/bin/python
        [ -x "$python" ] || python=python3
    fi
    if [ -x "$venv/bin/python" ] && cmp -s benchmarks/peers/requirements.txt "$venv/.installed"; then
        return 0
    fi
    echo "Installing the peers' Python clients into $venv"
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || return 1
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r benchmarks/peers/requirements.txt &&
        cp benchmarks/peers/requirements.txt "$venv/.installed"
}

# What `pip install 'raftlog[fast]'` adds, beside .venv: the tests run without it.
install_fast() {
    [ -d "$tools/fast/uvloop" ] && return
    echo "Installing uvloop for raftlog's nodes into $tools/fast"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --target "$tools/fast" 'uvloop>=0.21' ||
        say_missing uvloop "raftlog's nodes run on asyncio's own event loop"
}

install_kafka() {
    scripts/install-java.sh || { say_missing kafka "Java 17 or newer is needed"; return; }
    if cmp -s benchmarks/peers/kafka-pom.xml "$tools/kafka/.installed"; then
        return
    fi
    command -v mvn >/dev/null || apt_install maven || { say_missing kafka "Maven is needed (Debian: maven)"; return; }
    echo "Fetching Apache Kafka by Maven"
    rm -rf "$tools/kafka"
    if mvn --batch-mode --quiet --file benchmarks/peers/kafka-pom.xml dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$PWD/$tools/kafka/libs"; then
        cp benchmarks/peers/kafka-pom.xml "$tools/kafka/.installed"
    else
        say_missing kafka "Maven could not fetch it"
    fi
}

install_jetstream() {
    local target=$tools/nats-server
    # Debian 12 has 2.9, which cannot sync before it acknowledges (sync_interval came with 2.10).
    if [ -x "$target" ] && "$target" --version | grep -q "${nats_version#v}"; then
        return
    fi
    command -v go >/dev/null || apt_install golang-go || { say_missing jetstream "Go is needed"; return; }
    echo "Building nats-server $nats_version by Go"
    GOBIN=$PWD/$tools go install "github.com/nats-io/nats-server/v2@$nats_version" ||
        say_missing jetstream "nats-server could not be built"
}

install_rabbitmq() {
    [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] && return
    echo "Installing rabbitmq-server"
    apt_install rabbitmq-server || say_missing rabbitmq "install Debian's rabbitmq-server"
}

install_redis() {
    command -v redis-server >/dev/null && return
    echo "Installing redis-server"
    apt_install redis-server || say_missing redis "install redis-server"
}

peers=("$@")
[ ${#peers[@]} -gt 0 ] || peers=(kafka jetstream rabbitmq redis)
install_fast
install_clients || say_missing clients "the Python clients could not be installed: no peer can be measured"
for peer in "${peers[@]}"; do
    case $peer in
        kafka | jetstream | rabbitmq | redis) "install_$peer" ;;
        raftlog | bare) ;;
        *) echo "no peer is named $peer; peers: kafka jetstream rabbitmq redis" >&2; exit 2 ;;
    esac
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "${#missing[@]} missing: ${missing[*]}" >&2
    exit 1
fi
