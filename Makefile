# raftlog's commands. `make help` lists them; each installs what it needs, once.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PYTHON_STAMP := $(VENV)/.installed
TOXIPROXY := .tools/toxiproxy-server
DOCS_STAMP := $(VENV)/.docs-installed
PYTEST ?= -n 2 --dist loadfile --no-loadscope-reorder -m "not kafka and not console"
SCENARIO ?=
SEEDS ?=
SEED ?=
WORLD ?=
JOBS ?=
SHRINK ?=
KEEP ?=
WITHOUT ?=
ONLY ?=
QUICK ?=
SUITE ?= quorum
DURATION ?=
HOURS ?=
MINUTES ?=
KILLS ?=
LOAD ?=
SECURE ?=
# Mounts of the chaos suite in a namespace of their own: the kernel undoes them when the last process has ended, however it did.
UNSHARE := $(shell unshare --mount true 2>/dev/null && echo unshare --mount --propagation slave)

# Environments that forbid Python to keep compiled modules let each of the many nodes and commands compile raftlog anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test test-kafka test-console check docs format chaos soak fuzz chaos-mutants sim mutants bench bench-peers dashboards clean

help: ## List the commands.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(PYTHON_STAMP): pyproject.toml constraints.txt scripts/install-python.sh
	@scripts/install-python.sh $(VENV)
	@touch $@

$(TOXIPROXY): scripts/install-toxiproxy.sh
	@scripts/install-toxiproxy.sh $@
	@touch $@

$(DOCS_STAMP): $(PYTHON_STAMP) scripts/install-docs.sh
	@scripts/install-docs.sh $(VENV) .tools/mermaid.min.js
	@touch $@

.tools/java: scripts/install-java.sh
	@mkdir -p .tools
	@scripts/install-java.sh
	@touch $@

.tools/spark.jsa: $(PYTHON_STAMP) .tools/java scripts/archive_spark_classes.py
	@echo "Storing Spark's classes in an archive, for the tests"
	@$(BIN)/python -W ignore scripts/archive_spark_classes.py $@ 2>/dev/null || echo "Without it tests of Spark take longer." >&2

.tools/prometheus: scripts/install-prometheus.sh
	@scripts/install-prometheus.sh .tools
	@touch $@

.tools/browser: scripts/install-browser.sh
	@mkdir -p .tools
	@scripts/install-browser.sh
	@touch $@

install: $(PYTHON_STAMP) $(TOXIPROXY) .tools/java .tools/spark.jsa ## Install everything into .venv/ and .tools/.

demo: install ## Start a cluster, load 336,776 flights while nodes are killed, read them back, run Spark; one JSON line at the end.
	@$(BIN)/python -m demo

test: install .tools/browser ## Run all tests but the long ones of Kafka's clients.
	@$(BIN)/python -m pytest $(PYTEST)

test-kafka: install ## Run Kafka's clients against clusters, with outages: all tests of tests/broker/kafka and those marked kafka.
	@scripts/install-kafka-tools.sh
	@$(BIN)/python -m pytest -n 2 --dist loadfile tests/broker/kafka $$(grep -rl "mark.kafka" tests --include=test_*.py | grep -v tests/broker/kafka || true)

test-console: install .tools/browser ## Run all tests of the console, in Chromium and in Node (needs npm).
	@cd console && npm ci --no-audit --no-fund --silent && npm run --silent check && npm test --silent
	@$(BIN)/python -m pytest -n 2 --dist loadfile tests/broker/test_console*.py tests/security/test_console*.py

check: $(PYTHON_STAMP) ## Check format, lint, types, layers, prose, and that pytest can collect every test.
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/check_prose.py
	@found=$$($(BIN)/python -m pytest --collect-only -qq 2>&1) || { echo "$$found" | tail -30; exit 1; }

docs: $(DOCS_STAMP) .tools/browser ## Build the documentation site in build/docs/html/ and check its links, code blocks and tables.
	@$(BIN)/python -m pytest -q $(wildcard tests/docs/test_code_blocks.py tests/docs/test_*_page.py tests/docs/test_reference_tables.py tests/docs/test_diagrams.py)
	@$(BIN)/python -m sphinx --fail-on-warning --fresh-env --keep-going --quiet --conf-dir docs/site --doctree-dir build/docs/doctrees . build/docs/html
	@echo "Built build/docs/html/index.html"

format: $(PYTHON_STAMP) ## Format the code and fix what can be fixed.
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

chaos: install ## Run chaos scenarios, about 20 minutes (SCENARIO="name name", SEED=s, KILLS=n; LOAD=records a second beside; SECURE=1 with TLS and access rules; DURATION=seconds for `swarm` and `controllers`; HOURS=8 goes on).
	@DURATION=$(DURATION) HOURS=$(HOURS) SEED=$(SEED) KILLS=$(KILLS) LOAD=$(LOAD) SECURE=$(SECURE) $(UNSHARE) $(BIN)/python -m chaos $(SCENARIO)

soak: install ## Steady load with restarts for HOURS=8: memory, descriptors, threads, tasks, disk and p99 by the hour; fails on growth (LOAD=records a second).
	@HOURS=$(HOURS) LOAD=$(LOAD) $(BIN)/python -m chaos.soak

fuzz: install ## Send mutated batches, requests and answers to nodes and clients for MINUTES=10 (ONLY="batches brokers clients kafka_brokers", SEED=s).
	@$(BIN)/python -m fuzz $(ONLY) --minutes $(or $(MINUTES),10) $(addprefix --seed ,$(SEED))

chaos-mutants: install ## Break a rule in every node of a real cluster, and see a chaos scenario turn red (ONLY="name name").
	@PYTHONPATH=. $(UNSHARE) $(BIN)/python tests/chaos/chaos_mutants.py $(ONLY)

sim: $(PYTHON_STAMP) ## Run random schedules of the metadata quorum, or of WORLD=cluster (SEEDS=n or a-b of them, or one SEED=s; SHRINK=1 makes it smaller).
	@WORLD=$(WORLD) SEEDS=$(SEEDS) SEED=$(SEED) JOBS=$(JOBS) SHRINK=$(SHRINK) KEEP=$(KEEP) WITHOUT=$(WITHOUT) DURATION=$(DURATION) $(BIN)/python -m simulation

mutants: $(PYTHON_STAMP) ## Break each replication rule once, and see that a test or a simulated cluster finds it (SEEDS=n at most; ONLY="name name").
	@SEEDS=$(SEEDS) JOBS=$(JOBS) PYTHONPATH=. $(BIN)/python tests/simulation/mutants.py $(ONLY)

bench: install ## Measure the metadata quorum against its targets, or SUITE=end_to_end (ONLY="commit failover" for some figures, QUICK=1 for fewer repetitions).
	@$(BIN)/python -m benchmarks $(SUITE) $(addprefix --only ,$(ONLY)) $(if $(QUICK),--quick)

bench-peers: $(PYTHON_STAMP) ## Measure raftlog beside Kafka, JetStream, RabbitMQ and Redis (ONLY="kafka redis" for some, QUICK=1 for short rounds, TLS=1 for Kafka with TLS).
	@scripts/install-peers.sh $(ONLY) || echo "Not every peer is here: those are skipped." >&2
	@$(BIN)/python -m benchmarks.peers $(ONLY) $(if $(QUICK),--quick) $(if $(TLS),--tls)

dashboards: install .tools/prometheus ## Run a cluster with load and Prometheus; check the alerts and every query of the dashboards (KEEP=1 goes on until Ctrl-C).
	@$(BIN)/python scripts/write_metrics.py
	@$(BIN)/python scripts/dashboards.py .tools $(if $(KEEP),--keep)

clean: ## Remove what the other commands made.
	rm -rf $(VENV) .tools build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse
