# make demo   run the fan-out scenario and write its report
# make test   lint, types, all tests
# make bench  how fast the forwarder is, as ratios within one run
# make bench-decode  how fast captures are decoded, against tshark and Scapy
#
# Each sets up what it needs the first time: system packages (by apt when root), then a virtual
# environment in .venv. PYTHON chooses the interpreter; FEED a feed export for the demo.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .make

.PHONY: demo test lint bench bench-decode setup clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

demo: $(STAMPS)/run
	@$(BIN)/feednet run fanout $(if $(FEED),--feed $(FEED))

test: $(STAMPS)/dev lint
	@$(BIN)/pytest

lint: $(STAMPS)/dev
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

bench: $(STAMPS)/dev
	@$(BIN)/python -m testbed.bench

bench-decode: $(STAMPS)/dev
	@$(BIN)/python -m testbed.bench_decode

setup: $(STAMPS)/dev

$(STAMPS)/system: testbed/setup.sh
	@mkdir -p $(STAMPS)
	@sh testbed/setup.sh "$(PYTHON)"
	@touch $@

$(STAMPS)/venv: $(STAMPS)/system
	@echo "making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(STAMPS)/run: $(STAMPS)/venv pyproject.toml
	@echo "installing feednet and its libraries (Spark is large; once)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(STAMPS)/dev: $(STAMPS)/run
	@echo "installing what the tests need"
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) $(STAMPS) build *.egg-info
