# Everything a newcomer needs: `make demo` shows what thence does, `make test` checks it.
# Both install what they need into .venv first; nothing else on the machine is touched.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
MINUTES ?= 5
SPREAD ?= mesh
CHANGING ?=
NODES ?= $(if $(filter tree,$(SPREAD)),20,$(if $(CHANGING),7,4))

# What tests read and write is UTF-8, whatever the locale.
export PYTHONUTF8 := 1

# The stamp says which Python .venv was made with, and where: one that has been moved, whose Python is another by now,
# or that is of another Python than PYTHON=... names, is made anew.
SAYS := import sys; print(*sys.version_info[:3], sys.prefix)
FOUND := $(shell $(BIN)/python -c '$(SAYS)' 2>/dev/null)
ASKED := $(if $(filter file,$(origin PYTHON)),$(FOUND),$(shell $(PYTHON) -c '$(SAYS)'))
ifneq ($(wildcard $(STAMP)),)
ifneq ($(FOUND) $(wordlist 1,3,$(ASKED)),$(shell cat $(STAMP)) $(wordlist 1,3,$(FOUND)))
STALE := yes
endif
endif
ifdef STALE
.PHONY: $(STAMP)
endif

.PHONY: help install demo test unit lint types format soak chaos bench compat clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo 'thence needs Python 3.11 or later: make PYTHON=python3.12 ...' >&2; exit 2; }
	@$(if $(STALE),echo '$(VENV) was made by another Python or elsewhere: it is made anew'; rm -rf $(VENV))
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo 'installing into $(VENV) (about a minute the first time)'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[lab,connect,client,dev]'
	@$(BIN)/python -c '$(SAYS)' > $(STAMP)

install: $(STAMP) ## create .venv and install thence with everything for work on it

demo: $(STAMP) ## the tour: what thence does, in about a minute
	$(BIN)/thence demo

test: lint types unit ## all checks and tests

unit: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

format: $(STAMP) ## let ruff put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

soak: $(STAMP) ## storms for MINUTES=5, on all cores, judged by Spark
	$(BIN)/thence soak --minutes $(MINUTES)

chaos: $(STAMP) ## real processes killed and cut off for MINUTES=5, judged by Spark; SPREAD=tree: 20 of them; CHANGING=1: they join and leave
	$(BIN)/thence chaos --minutes $(MINUTES) --spread $(SPREAD) --nodes $(NODES) $(if $(CHANGING),--changing)

compat: $(STAMP) ## others' test suites against a store, from the folder SUITES=…: docs/STORE.md
	$(BIN)/python scripts/compat.py --suites $(or $(SUITES),suites)

bench: $(STAMP) ## every benchmark, as docs/BENCHMARKS.md reports them
	$(BIN)/thence bench all

clean: ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis demo-out chaos-out
