# Lakewright's commands. `make help` lists them; each sets up what it needs on first use.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

VENV := .venv
DOCS := .docs
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check install
UV ?= uv
FLINK ?= .flink
# Where nothing says what to serve.
DEMO := src/lakewright/demo/tables
SOAK_MINUTES ?= 60
# Processes that run tests side by side: one more than there are cores, as some tests wait for
# Dagster. 0 runs them in one, which a debugger needs.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Compiled for the oldest Python supported; the same versions serve the newer ones.
COMPILE := $(UV) pip compile --quiet --no-header --generate-hashes --python-version 3.11

##@ Using it

.PHONY: help
help: ## List the commands
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: java setup ## Ingest real flights, compact, expire, and show what happened
	@$(VENV)/bin/lakewright demo

.PHONY: demo-stream
demo-stream: $(VENV)/.postgres ## Capture a database's changes into a table that upkeep keeps (three minutes)
	@$(VENV)/bin/lakewright demo --stream $(ARGS)

.PHONY: up
up: java setup ## Open the workspace in the Dagster UI
	@$(VENV)/bin/lakewright up $(if $(LAKEWRIGHT_TABLES)$(LAKEWRIGHT_POLICY),,--tables $(DEMO))

##@ Working on it

.PHONY: setup
setup: $(VENV)/.project ## Build .venv from the lock files (the others do it when needed)

.PHONY: test
test: java oracles ## Run every test that needs no other server (ARGS="-k name" narrows it)
	$(RUN) -m pytest -m "not deep and not stores" -n $(WORKERS) $(ARGS)

.PHONY: test-stores
test-stores: $(VENV)/.stores ## Talk to real servers of S3, GCS, Azure, HDFS, FTP, SFTP and Hive
	$(RUN) tests/stores/install.py .stores
	$(RUN) tests/oracles/install.py .oracles java_latest
	$(RUN) -m pytest -m "stores and not servers" tests/stores $(ARGS)

.PHONY: test-servers
test-servers: java $(VENV)/.stores ## Talk to real Kafka, PostgreSQL, MariaDB and Debezium (ARGS="-m servers" kills them longer)
	$(RUN) tests/stores/install.py .stores kafka debezium postgres mariadb
	$(RUN) -m pytest -m "servers and not deep" tests/stores $(ARGS)

.PHONY: test-flink
test-flink: java $(VENV)/.stores ## Run real Flink: statements, formats, jobs, logs (FLINK= names a folder for it)
	$(RUN) tests/flink/install.py $(FLINK)
	$(RUN) tests/stores/install.py .stores kafka
	FLINK=$(FLINK) $(RUN) -m pytest tests/flink $(ARGS)
	$(RUN) tests/oracles/install.py .oracles flink
	$(RUN) -m pytest tests/oracles/test_flink_parser.py $(ARGS)

.PHONY: test-deep
test-deep: java oracles ## Try properties with many more examples, and run the tests that take long
	$(RUN) -m pytest -m "(deep or hypothesis) and not stores" --hypothesis-profile=deep \
		-n $(WORKERS) $(ARGS)

.PHONY: soak
soak: java oracles $(VENV)/.stores ## Write, keep and read tables for an hour while processes die (SOAK_MINUTES=60)
	-$(RUN) tests/stores/install.py .stores kafka postgres
	-$(RUN) tests/flink/install.py $(FLINK)
	FLINK=$(FLINK) $(RUN) -m tests.soak .soak/$$(date +%Y%m%dT%H%M%S) --minutes $(SOAK_MINUTES) $(ARGS)

.PHONY: mutate
mutate: setup .mutation/.packages ## Put faults into commit, expiry and orphan code, and see what notices (tests/mutation)
	.mutation/bin/python tests/mutation/mutants.py > .mutation/mutants.jsonl
	$(RUN) -m tests.mutation .mutation/mutants.jsonl $(ARGS)

.PHONY: check
check: setup ## Lint, formatting, types, import contracts, the mission table, the tree
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy -p lakewright -p pyspark_lakewright -p tools -p tests.support -p tests.architecture
	$(RUN) tools/lint_imports.py
	$(RUN) tools/check_mission.py
	$(RUN) tools/check_tree.py
	$(RUN) tools/check_words.py

.PHONY: fix
fix: setup ## Apply the linter's safe fixes and the formatting
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

.PHONY: reference
reference: setup ## Rewrite what docs/reference and README.md say of commands, keys and options
	$(RUN) tools/write_reference.py

.PHONY: mission
mission: setup ## Rewrite the proof column of docs/mission.md from the tests' marks
	$(RUN) tools/check_mission.py --update

.PHONY: bench
bench: java oracles ## Measure beside peers and the floor (ARGS=--quick is short; see docs/why/benchmarks.md)
	$(RUN) -m benchmarks $(ARGS)

.PHONY: docs
docs: $(DOCS)/.packages ## Build the pages of docs/ as a site, into site/
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet

.PHONY: lock
lock: setup ## Compile the lock files from pyproject.toml (ARGS=--upgrade takes newer versions)
	@command -v $(UV) >/dev/null || { echo "make lock needs uv: pipx install uv, or name it with UV=" >&2; exit 1; }
	$(COMPILE) $(ARGS) --extra dev pyproject.toml -o requirements.lock
	$(COMPILE) $(ARGS) --no-annotate --extra stores pyproject.toml -c requirements.lock \
		-o tests/stores/requirements.lock
	$(COMPILE) $(ARGS) --no-annotate tests/mutation/requirements.in -o tests/mutation/requirements.lock
	$(COMPILE) $(ARGS) --no-annotate benchmarks/lakehouses.in -o benchmarks/lakehouses.lock
	$(COMPILE) $(ARGS) --no-annotate benchmarks/spark-lakehouses.in -o benchmarks/spark-lakehouses.lock
	$(COMPILE) $(ARGS) --no-annotate docs/requirements.in -o docs/requirements.lock
	$(RUN) tools/build_requirements.py | $(COMPILE) $(ARGS) --no-annotate - -o requirements-build.lock

.PHONY: clean
clean: ## Remove the demo's warehouse, run history, caches and the site; .venv and .oracles stay
	rm -rf warehouse spark-warehouse metastore_db derby.log build dist site $(DOCS)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find dagster_home -mindepth 1 -maxdepth 1 ! -name dagster.yaml -exec rm -rf {} +
	find assets benchmarks connectors jobs platform session src storage tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# ------------------------------------------------------------------------------ behind them

.PHONY: java
java:
	@tools/require_java.sh

.PHONY: oracles
oracles: setup
	$(RUN) tests/oracles/install.py .oracles

# What is pinned: setuptools first, so that the few source packages build with it and nothing else.
# The locks are complete, so pip resolves nothing; `pip check` says whether that is true.
$(VENV)/.packages: requirements.lock requirements-build.lock
	@$(RUN) -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		python=$$(PYTHON="$(PYTHON)" tools/find_python.sh) && "$$python" -m venv --clear $(VENV); }
	@echo "installing the environment into $(VENV): about 1.3 GB, a few minutes on the first use"
	$(PIP) --quiet --require-hashes --no-deps -r requirements-build.lock
	$(PIP) --require-hashes --no-deps --no-build-isolation --use-pep517 -r requirements.lock
	$(RUN) -m pip check
	@touch $@

# Clients of stores, and servers that come as packages, with the versions of everything else kept.
$(VENV)/.stores: tests/stores/requirements.lock $(VENV)/.project
	$(PIP) --require-hashes --no-deps --no-build-isolation --use-pep517 -r tests/stores/requirements.lock
	$(RUN) -m pip check
	@touch $@

# The client of the database that the demo of streams captures.
$(VENV)/.postgres: tests/stores/requirements.lock $(VENV)/.project
	@awk '/^[a-z]/ { wanted = /^psycopg(-binary)?==/ } wanted' $< > $@.lock
	$(PIP) --quiet --require-hashes --no-deps -r $@.lock
	@touch $@

# What makes mutants wants packages in versions of its own, so it gets an environment of its own.
.mutation/.packages: tests/mutation/requirements.lock $(VENV)/.packages
	$(RUN) -m venv --clear .mutation
	.mutation/bin/python -m pip --disable-pip-version-check install --quiet \
		--require-hashes --no-deps -r tests/mutation/requirements.lock
	@touch $@

# What builds the site needs nothing of the project, and so gets an environment of its own.
$(DOCS)/.packages: docs/requirements.lock
	@python=$$(PYTHON="$(PYTHON)" tools/find_python.sh) && "$$python" -m venv --clear $(DOCS)
	$(DOCS)/bin/python -m pip --disable-pip-version-check install --quiet \
		--require-hashes --no-deps -r docs/requirements.lock
	@touch $@

# Then the project itself, editable, with what is installed.
$(VENV)/.project: $(VENV)/.packages pyproject.toml
	$(PIP) --quiet --no-deps --no-build-isolation --editable .
	@touch $@
