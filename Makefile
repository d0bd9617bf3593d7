# Everything needs Python, make and git only: each target sets up what it uses, shows it, and is quick when it is there.

MAKEFLAGS += --no-print-directory
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
TYPES := .venv-types/bin
PYTEST_ARGS ?=
# Test processes, each with a stack of its own (1 GB); 0 runs everything in one.
JOBS ?= 2

ONLY ?=

.PHONY: help demo test bench pictures check record-histories fmt setup clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18
	@printf '\nmake demo ONCE=1 stops the stack again and exits 0 only if every step was seen.\n'
	@printf 'make test PYTEST_ARGS="-k NAME" runs some of the tests; make bench ONLY=install_100,idle_200 measures some.\n'

demo: ## Start a stack and watch packages live a whole life on it
	@tools/bootstrap.sh stack
	@$(BIN)/windlass demo $(if $(ONCE),--once)

test: ## Run all tests on an embedded stack
	@tools/bootstrap.sh stack
	@$(BIN)/pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

bench: ## Measure, beside plain helm; writes bench/results/latest.json; ONLY=names, RUNS=number
	@tools/bootstrap.sh stack
	@PYTHONPATH=tests $(BIN)/python bench --only "$(ONLY)" $(if $(RUNS),--runs $(RUNS))

check: ## Lint, formatting, types of the installed artefact, import rules
	@tools/bootstrap.sh types
	@tools/check.sh

record-histories: ## Record anew the histories that replay tests read, after a change of workflows
	@tools/bootstrap.sh stack
	@WINDLASS_RECORD_HISTORIES=1 $(BIN)/pytest tests/e2e
	@git status --short tests/replay/histories

pictures: ## Draw anew the pictures of terminals in docs/images
	@tools/bootstrap.sh stack
	@$(BIN)/python docs/images/draw.py --since "A worker" docs/images/demo.svg $(BIN)/windlass demo --once --data-dir "$$(mktemp -d)/demo"
	@$(BIN)/windlass plan chain examples/fleet/chain.yaml --from ingress-1-0 --to ingress-2-1 --svg docs/images/chain.svg

fmt: ## Format the sources and apply safe fixes
	@tools/bootstrap.sh run
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

setup: ## Install packages and build the programs of the stack, no more
	@tools/bootstrap.sh stack

clean: ## Remove what the other targets made in this checkout (the user's caches stay)
	@rm -rf .venv .venv-types .windlass build dist windlass.egg-info src/windlass.egg-info
	@rm -rf .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
