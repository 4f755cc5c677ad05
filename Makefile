# make          sets up .venv
# make demo     a real Spark job, first as configured, then under Weir (SECONDS=90, KEEP=1)
# make stack    that job beside Prometheus and Alertmanager: an alert fires and resolves
# make test     lint, types and the quick tests, of everything: minutes
# make test-all  every test but for the courses of minutes: make test-courses
# `make help` lists the rest.

.DEFAULT_GOAL := setup
.PHONY: setup setup-run demo stack test test-all test-courses test-matrix evidence kafka sparks chart lint format generated lock clean help

# A Python to build .venv with; one is looked for when this is empty.
PYTHON ?=
export PYTHON
# How long the demo takes, all in all.
SECONDS ?= 90
# Pass KEEP=1 to leave the demo's agent and job running after the summary, until Ctrl-C.
KEEP ?=
# For `make evidence`: begin no run after so many minutes; and options of its own.
MINUTES ?=
ARGS ?=

python := .venv/bin/python

setup: ## set up .venv with all that the commands and the tests need
	@sh scripts/setup.sh dev

setup-run:
	@sh scripts/setup.sh run

demo: ## a real query in bursts: as configured, then under Weir
	@sh scripts/check-java.sh --quiet
	@sh scripts/setup.sh run
	@$(python) -m examples.demo --seconds $(SECONDS) $(if $(KEEP),--keep)

stack: ## Prometheus and Alertmanager beside the demo's job: an alert fires and resolves
	@sh scripts/check-java.sh --quiet
	@sh scripts/setup.sh run
	@$(python) -m examples.stack --seconds $(SECONDS) $(if $(KEEP),--keep)

test: ## lint, types and the quick tests, of every part
	@sh scripts/test.sh

test-all: ## the slow tests too; what `make test` has just passed on this tree is not run again
	@sh scripts/test.sh all

test-courses: ## what neither runs: each for minutes at a load's own pace, one by one: an hour, beside nothing else
	@sh scripts/test.sh courses

test-matrix: setup ## Weir on each PySpark of the matrix; writes docs/versions.md
	@sh scripts/ensure-sparks.sh
	@sh scripts/ensure-kafka.sh
	@$(python) -m tests.matrix --write --python-sources --every-iceberg

evidence: setup ## public workloads on a real cluster, for hours; writes docs/evidence.md (MINUTES=40, ARGS=--help)
	@sh scripts/check-java.sh --quiet
	@sh scripts/ensure-kafka.sh
	@$(python) -m scripts.plugin_jar
	@$(python) -m tests.benchmarks.evidence $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

sparks: ## a venv for each PySpark of the matrix, into .make
	@sh scripts/ensure-sparks.sh

kafka: ## a Kafka broker's jars and Spark 4's connector to it, into .make/kafka: 64 MB
	@sh scripts/ensure-kafka.sh broker connector-4
	@echo "weir: make broker starts one"

.PHONY: broker
broker: setup kafka ## a Kafka broker on 127.0.0.1:9092 with rows in bursts, until Ctrl-C
	@$(python) -m tests.kafka

chart: ## dist/weir-VERSION.tgz: the Helm chart, with rules and dashboards in it
	@sh scripts/ensure-helm.sh
	@mkdir -p dist
	@PATH="$(CURDIR)/.make/tools:$$PATH" helm package helm/weir --destination dist 2>.make/chart.log \
	  || { cat .make/chart.log >&2; exit 1; }

plugin: setup ## dist/weir-spark-plugin.jar: Weir's Spark plugin, in the listener's wheel too
	@$(python) -m scripts.plugin_jar dist

.PHONY: release release-check docs wheels
wheels: setup-run ## dist/: the two wheels, of the last commit; all that is published: make release
	@sh scripts/ensure-venv.sh release 'builds releases'
	@$(python) -m scripts.release --wheels

release: setup ## dist/: all that is published, of the last commit, the same bytes each time
	@sh scripts/ensure-tools.sh release
	@sh scripts/ensure-helm.sh
	@sh scripts/ensure-venv.sh release 'builds releases'
	@$(python) -m scripts.release $(if $(ADDRESS),--address $(ADDRESS)) $(if $(MAVEN_GROUP),--maven-group $(MAVEN_GROUP))

release-check: setup ## what make release built, installed and seen at work; SECONDS=0 leaves out the demo
	@sh scripts/ensure-tools.sh release
	@sh scripts/ensure-helm.sh
	@$(python) -m scripts.release_check --demo $(SECONDS)

docs: ## site/: the documentation as a site, every link checked
	@sh scripts/ensure-docs.sh
	@NO_MKDOCS_2_WARNING=1 .make/docs/bin/python -m mkdocs build --strict --quiet
	@echo "weir: made site/; to read it: $(python) -m http.server --directory site --bind 127.0.0.1"

lint: setup ## lint and types only
	@sh scripts/test.sh lint

format: setup ## put the code into its form
	@$(python) -m ruff check --fix-only --quiet .
	@$(python) -m ruff format .

generated: setup ## write anew what is written from the code: docs, dashboards, rules, the chart's schema
	@$(python) -m scripts.generate

lock: ## pin requirements/*.in anew, with hashes
	@sh scripts/lock.sh

clean: ## remove what setup, tests and demo made
	rm -rf .venv .demo .stack .make build dist site spark_listener/build *.egg-info spark_listener/*.egg-info

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 15
