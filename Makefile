# Ottla. `make demo` and `make test` need nothing but this checkout, Python >= 3.11 and a network for the first install.
SHELL := /bin/bash
PY := .venv/bin/python
OUT ?= bench.json
SAVE ?=
SIZE ?= 1
SEED ?=
SECONDS ?= 60
ROUNDS ?= 10
EXAMPLES ?= 1000
ONLY ?=
FILE ?=
KEEP ?=
STORY ?=
CASE ?=
STATE ?=
MODEL ?=
NAME ?=
WHAT ?=
CHECK ?=

# pages written by hand: those that tools make are as their tools make them
PAGES = $(shell git ls-files '*.md' | grep -vE '^(bench/results/|docs/(apis|cli|configuration|doors|metrics|proofs|benchmark|connect-benchmark|registry-benchmark|security-benchmark|streams-benchmark)\.md)')

.PHONY: help install demo demo-etl demo-cdc test check nightly wheels format generate web test-console demo-console new-api new-command bench bench-pure bench-crowd bench-spark bench-cluster bench-all bench-streams bench-connect bench-security bench-mirror bench-registry bench-sql compat sim faults fuzz fuzz-doors fuzz-jdbc fuzz-capture fuzz-mirror fuzz-registry cost mutations soak chaos chaos-streams chaos-connect peer constraints clean

help:  ## list the targets
	@grep -hE '^[a-z -]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

.venv/.installed: pyproject.toml constraints.txt tools/install.sh
	@tools/install.sh

install:  ## prepare .venv with every extra, Java for Spark, and the compiled hot modules
	@tools/install.sh

demo: .venv/.installed  ## count the words of real text on Spark, topic to topic (FILE=path, KEEP=1)
	@FILE="$(FILE)" KEEP="$(KEEP)" $(PY) -m ottla.cli.commands.demo

demo-etl: .venv/.installed  ## database to database and S3 through topics and a Streams join, parts killed on the way
	@$(PY) -m tools.postgres run -- $(PY) examples/etl/run.py

demo-cdc: .venv/.installed  ## a database's changes, joined by Streams, into another database, worker and broker killed on the way
	@$(PY) -m tools.postgres run wal_level=logical -- $(PY) examples/etl/capture.py

test: .venv/.installed  ## every test that a change must pass, but for those of `make check`
	@tools/run_tests.sh

check: .venv/.installed  ## format, lint, types, architecture: what is quick, before every commit
	@.venv/bin/ruff format --check src tests tools bench examples setup.py
	@.venv/bin/ruff check src tests tools bench examples setup.py
	@.venv/bin/mdformat --check $(PAGES)
	@.venv/bin/mypy
	@$(PY) -m pytest -p no:xdist tests/test_architecture.py tests/test_style.py tests/test_privates.py tests/test_generated.py

nightly: .venv/.installed  ## what `.ci/run` leaves out, for hours, and the record of it in docs/proofs.md (ONLY=step, DUE=1, LIST=1)
	@$(PY) tools/nightly.py $(ONLY) $(if $(DUE),--due) $(if $(LIST),--list)

wheels: .venv/.installed  ## the wheel, a broker, Streams and Connect under each Python here, and the image's steps (ONLY=name)
	@$(PY) -m pytest -v -m slow tests/packaging $(if $(ONLY),-k "$(ONLY)")

format: .venv/.installed  ## apply the formatters and the linter's safe fixes
	@.venv/bin/ruff format src tests tools bench examples setup.py
	@.venv/bin/ruff check --fix src tests tools bench examples setup.py
	@.venv/bin/mdformat $(PAGES)

generate: .venv/.installed  ## rewrite everything that is generated from facts
	@$(PY) tools/generate.py

web: .venv/.installed  ## build the console's pages from web/ (CHECK=1: only say whether the committed ones are the same)
	@$(PY) tools/web.py $(if $(CHECK),--check)

test-console: .venv/.installed  ## the console in a real browser: every page in every size and theme, and against Apache Kafka
	@$(PY) -m pytest tests/console -m "slow or not slow"

demo-console: .venv/.installed  ## the console over a broker with live data, a registry, groups that lag, dead letters; prints its link
	@$(PY) tools/demo_console.py

new-api: .venv/.installed  ## begin a handler and its test (NAME=ShareGroupDescribe; CONTRIBUTING.md)
	@$(PY) tools/new_api.py "$(NAME)"

new-command: .venv/.installed  ## begin a command and its test (NAME=broker-load WHAT="print how busy brokers are"; CONTRIBUTING.md)
	@$(PY) tools/new_command.py "$(NAME)" "$(WHAT)"

BENCH = $(PY) -m bench $(1) $(if $(SAVE),--save "$(SAVE)") $(if $(ONLY),--only "$(ONLY)")
BENCH_FAMILIES = pure crowd spark cluster

bench: .venv/.installed  ## the broker, compiled, beside Apache Kafka, 20 minutes (SAVE=file.json, ONLY=names)
	@$(PY) tools/compile_hot.py
	@$(call BENCH,broker)

bench-pure bench-crowd bench-spark bench-cluster: .venv/.installed  ## one family beside Apache Kafka: not compiled, ten thousand partitions, Spark's connectors, three brokers (SAVE, ONLY)
	@$(PY) tools/compile_hot.py
	@$(call BENCH,$(@:bench-%=%))

bench-all: .venv/.installed  ## every family, kept in bench/results, and docs/benchmark.md of them: for hours, on a machine that does nothing else
	@$(PY) tools/compile_hot.py
	@for family in broker $(BENCH_FAMILIES); do $(PY) -m bench $$family --save bench/results/$$family.json || exit 1; done
	@$(PY) -m bench.page > docs/benchmark.md

bench-streams: .venv/.installed  ## Streams on Spark beside Kafka Streams in one run (OUT=file.json, SIZE=1)
	@$(PY) tools/compile_hot.py
	@$(PY) -m bench.streams --out "$(OUT)" --size "$(SIZE)" $(if $(ONLY),--only "$(ONLY)")

bench-connect: .venv/.installed  ## Connect's workers beside Apache Kafka Connect in one run (OUT=file.json, SIZE=1)
	@$(PY) tools/compile_hot.py
	@$(PY) -m bench.connect --out "$(OUT)" --size "$(SIZE)" $(if $(ONLY),--only "$(ONLY)")

bench-security: .venv/.installed  ## what TLS, ACLs and floods cost, beside Apache Kafka in one run (OUT=file.json, SIZE=1, ONLY=name)
	@$(PY) tools/compile_hot.py
	@$(PY) -m bench.security --out "$(OUT)" --scale "$(SIZE)" $(if $(ONLY),--only "$(ONLY)")

bench-mirror: .venv/.installed  ## MirrorMaker beside Kafka's own in one run (OUT=file.json, SIZE=1)
	@$(PY) tools/compile_hot.py
	@$(PY) -m bench.mirror --out "$(OUT)" --size "$(SIZE)"

bench-registry: .venv/.installed  ## what the schema registry answers in a second, and what it takes (OUT=file.json, SIZE=1, ONLY=name)
	@$(PY) tools/compile_hot.py
	@$(PY) -m bench.registry --out "$(OUT)" --scale "$(SIZE)" $(if $(ONLY),--only "$(ONLY)")

bench-sql: .venv/.installed  ## the SQL server: statements, pulls, idle queries, rates beside Kafka Streams (OUT=file.json, SIZE=1, ONLY=name)
	@$(PY) tools/compile_hot.py
	@$(PY) -m bench.sql --out "$(OUT)" --scale "$(SIZE)" $(if $(ONLY),--only "$(ONLY)")

COMPAT_FILES = tests/compat tests/streams/test_java_live.py tests/spark/test_query_kills.py tests/connect/distributed/test_kill.py

compat: compat-files compat-peer  ## clients and tools that nobody here wrote, and the slow comparisons with Kafka (ONLY=name)

.PHONY: compat-tools compat-files compat-peer
compat-tools: .venv/.installed
	@command -v kcat >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -y -qq kcat >/dev/null 2>&1; } || \
	  echo "kcat is not installed, its tests are skipped: apt-get install kcat"
	@[ -x /usr/sbin/krb5kdc ] || { [ "$$(id -u)" = 0 ] && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
	  krb5-kdc krb5-admin-server krb5-user libkrb5-dev libsasl2-modules-gssapi-mit >/dev/null 2>&1; } || \
	  echo "no KDC is installed, Kerberos' tests are skipped: apt-get install krb5-kdc krb5-admin-server krb5-user libkrb5-dev"
	@$(PY) -c "import gssapi" 2>/dev/null || $(PY) -m pip install -q -c constraints.txt gssapi || \
	  echo "gssapi is not installed, Kerberos' tests are skipped: apt-get install libkrb5-dev gcc python3-dev"

compat-files: compat-tools
	@$(PY) -m pytest $(or $(FILES),$(COMPAT_FILES)) $(if $(ONLY),-k "$(ONLY)")

compat-peer: compat-tools
	@$(PY) -m pytest -m "peer and slow" --ignore tests/compat --ignore tests/streams/test_java_live.py $(if $(ONLY),-k "$(ONLY)")

sim: .venv/.installed  ## deterministic simulation of brokers, quorums and clusters on every processor (SEED=cluster:17, SECONDS=n)
	@$(PY) -m tests.sim $(if $(SEED),--seed "$(SEED)") --seconds "$(SECONDS)"

fuzz-doors: .venv/.installed  ## damaged statements, bodies and schemas for the SQL server and the registry (SECONDS=n, CASE=door:kind:seed)
	@$(PY) -m tests.fuzz_doors $(if $(CASE),--case "$(CASE)") --seconds "$(SECONDS)"

fuzz-jdbc: .venv/.installed  ## random histories from table to table through a topic, over PostgreSQL, MariaDB and SQLite (SECONDS=n, SEED=n)
	@$(PY) -W ignore -m tests.connectors.jdbc.machine $(if $(SEED),--seed "$(SEED)") --seconds "$(SECONDS)"

fuzz-capture: .venv/.installed  ## random histories on a real PostgreSQL and MariaDB, what captures tell compared with the tables (SECONDS=n, SERVER=postgresql|mariadb, SEED=n, THEMES=name,name)
	@$(PY) -m tests.fuzz_capture $(if $(SERVER),--server "$(SERVER)") $(if $(SEED),--seed "$(SEED)") $(if $(THEMES),--themes "$(THEMES)") --seconds "$(SECONDS)"

fuzz-mirror: .venv/.installed  ## a mirror whose every request fails once, topics made again, kills (SECONDS=n, CASE=seed or seed:request:fault)
	@$(PY) -m tests.mirror.machine $(if $(CASE),--case "$(CASE)") --seconds "$(SECONDS)"

fuzz-registry: .venv/.installed  ## requests of every mode to the registry, compaction and restarts: what an id means (SECONDS=n, SEED=n)
	@$(PY) -m tests.registry.machine $(if $(SEED),--seed "$(SEED)") --seconds "$(SECONDS)"

faults: .venv/.installed  ## every system call of a log, a directory and a broker fails once, in every way, half an hour (STORY=name, CASE=name:14:ENOSPC)
	@$(PY) -m tests.faults $(if $(STORY),--story "$(STORY)") $(if $(CASE),--only "$(CASE)")

fuzz: .venv/.installed  ## property tests with examples that no run had before (EXAMPLES=n for each, ONLY=name)
	@EXAMPLES="$(EXAMPLES)" $(PY) -m pytest tests -m hypothesis --timeout 3600 $(if $(ONLY),-k "$(ONLY)")

cost: .venv/.installed  ## count what requests of every API in every version, schemas and SQL cost, and find what grows faster than they do (ONLY=METADATA)
	@$(PY) -m tests.cost --n 128 --all-versions $(if $(ONLY),--only "$(ONLY)")
	@$(PY) -m tests.cost --texts $(if $(ONLY),--only "$(ONLY)")

mutations: .venv/.installed  ## the code broken on purpose: which worlds, and which failing calls, find it (takes long)
	@code=0; for each in tests.faults.mutations tests.sim.named_mutations tests.sim.mutations "tests.mirror.machine --mutations" "tests.registry.machine --mutations"; do $(PY) -m $$each || code=1; done; exit $$code

soak: .venv/.installed  ## everything at once on one broker, every record accounted for (SECONDS=n)
	@$(PY) -m tests.soak --seconds "$(SECONDS)" $(if $(SEED),--seed "$(SEED)")

chaos: .venv/.installed  ## break a cluster of real processes under load, every record accounted for (ROUNDS=n, SEED=n)
	@$(PY) -m tests.chaos --rounds "$(ROUNDS)" $(if $(SEED),--seed "$(SEED)") $(if $(ONLY),--only "$(ONLY)")

chaos-streams: .venv/.installed  ## kill an application on Spark, its workers and its broker (ROUNDS=n, SEED=n, STATE=native, MODE=continuous with WORKERS=1 on a cluster of two Spark workers), or MODEL=1: each failure in a model
	@$(if $(MODEL),$(PY) -m tests.streams.machine,$(PY) -m $(if $(filter continuous,$(MODE)),tests.streams.continuous,tests.streams.kills) --rounds "$(ROUNDS)" $(if $(SEED),--seed "$(SEED)") $(if $(ONLY),--only "$(ONLY)") $(if $(STATE),--state "$(STATE)") $(if $(WORKERS),--spark))

chaos-connect: .venv/.installed  ## kill Connect's workers and tasks, its broker, database and store (ROUNDS=n, SEED=n), or MODEL=1: each failure in a model
	@$(if $(MODEL),$(PY) -m pytest tests/connect/contract -m "slow or not slow",$(PY) -m tests.connect.chaos --rounds "$(ROUNDS)" $(if $(SEED),--seed "$(SEED)") $(if $(ONLY),--only "$(ONLY)"))

peer: .venv/.installed  ## fetch Apache Kafka's jars with Maven, for the tests and the benchmark that compare with it
	@$(PY) -m tests.peer fetch
	@$(PY) -c "from tests.peer import hdfs, yarn; hdfs.fetch(); yarn.fetch()"

constraints: .venv/.installed  ## renew constraints.txt from what is installed
	@tools/write_constraints.sh

clean:  ## remove what is built or installed in this checkout
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src -name '*.so' -delete
