# make demo   run the fan-out scenario and write its report
# make test   lint, types, all tests; those of what can be compiled once more with it compiled
# make test-slow  tests of a minute or more, and of Spark's workers: our TCP beside Linux's, a cluster, the documents' commands
# make compiled  the forwarder, the emulator and the simulation as machine code (some minutes): runs take less time
# make bench  how fast the forwarder is, in plain Python and compiled, as ratios within one run
# make fuzz   look for inputs that break the codec, a node, its management, peers, a broker, or reading captures: FUZZ_SECONDS=60 for each
# make soak   a day of traffic in virtual time, then ten minutes against a daemon
# make bench-decode  how fast captures are decoded, against tshark and Scapy
# make bench-analysis  how fast PIT state and latency are told from packets, against DuckDB and tshark; the cost of `feednet analyze`
# make paper-results  the runs behind the verdicts of the documents; goes on where it was stopped
# make paper  paper/build/paper.pdf from the committed results (LaTeX, by apt when root)
# make docs   the documents as a site with search, site/index.html; broken links are errors
# make pictures  the pictures of the documents, by Chromium
#
# Each sets up what it needs the first time: system packages (by apt when root), then a virtual
# environment in .venv. PYTHON chooses the interpreter; FEED a feed export for the demo.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .make
COMPILED := .compiled

# Folders whose tests all run compiled, too, and tests marked `compiled`.
TESTS_OF_COMPILED := tests/forwarder tests/feedcache tests/lli tests/simulate tests/ssb_over_ndn \
	tests/analysis/test_short_runs.py tests/testbed/test_lli_storm.py tests/testbed/test_truth.py \
	tests/testbed/test_scenarios.py tests/testbed/test_soak.py::test_an_hour tests/testbed/test_soak.py::test_a_seed_is_a_soak

# Else each of the hundreds of processes that tests start would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: compiled demo test test-plain test-mininet test-compiled test-slow lint bench bench-decode bench-analysis docs paper paper-results pictures fuzz soak setup clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

demo: $(STAMPS)/run
	@$(BIN)/feednet run fanout $(if $(FEED),--feed $(FEED))

# The first four run side by side, as Mininet's tests mostly wait; each prints when it has ended.
test: $(STAMPS)/dev
	@$(MAKE) --no-print-directory -j 4 --output-sync=target lint test-mininet test-plain $(STAMPS)/compiled
	@$(MAKE) --no-print-directory test-compiled

test-plain: $(STAMPS)/dev
	@FEEDNET_PLAIN=1 $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder \
		-m "not mininet and not slow$$(sh testbed/compile.sh $(BIN)/python && echo ' and not compiled')"

test-mininet: $(STAMPS)/dev
	@FEEDNET_PLAIN=1 $(BIN)/pytest -m 'mininet and not slow' $$(grep -rli mininet tests --include='test_*.py' | sort)

test-slow: $(STAMPS)/dev
	@$(BIN)/pytest -m slow --timeout 3600

test-compiled: $(STAMPS)/compiled
	@if [ -d $(COMPILED) ]; then \
		$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --compiled -m 'not mininet and not slow' \
			-o cache_dir=.pytest_cache/compiled $(TESTS_OF_COMPILED); \
	fi

lint: $(STAMPS)/dev
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

bench: $(STAMPS)/dev $(STAMPS)/compiled
	@FEEDNET_PLAIN=1 $(BIN)/python -m testbed.bench
	@if [ -d $(COMPILED) ]; then $(BIN)/python -m testbed.bench; fi

fuzz: $(STAMPS)/dev
	@$(BIN)/python -m testbed.verify.fuzz

soak: $(STAMPS)/dev
	@$(BIN)/python -m testbed.verify.soak
	@$(BIN)/python -m testbed.verify.soak --real-minutes 10

bench-decode: $(STAMPS)/dev
	@$(BIN)/python -m testbed.bench.runs.decode

bench-analysis: $(STAMPS)/dev
	@$(BIN)/python -m testbed.bench.runs.analysis
	@$(BIN)/python -m testbed.bench.runs.cluster

docs: $(STAMPS)/docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "site/index.html"

# At low priority, and resumable: what runs/study-NAME keeps is not run again.
paper-results: $(STAMPS)/dev
	@for study in claims networks; do nice -n 15 $(BIN)/feednet study $$study --keep || exit 1; done
	@$(BIN)/python docs/generate.py

paper: $(STAMPS)/dev $(STAMPS)/latex
	@$(BIN)/python -m testbed.study.paper claims networks paper/build
	@cd paper && for pass in 1 2 3; do \
		pdflatex -interaction=batchmode -halt-on-error -output-directory build paper.tex >/dev/null || \
			{ grep -A 3 '^!' build/paper.log; exit 1; }; \
	done
	@echo "paper/build/paper.pdf"

pictures: $(STAMPS)/dev
	@$(BIN)/python docs/pictures.py

setup: $(STAMPS)/dev

compiled: $(STAMPS)/compiled

$(STAMPS)/system: testbed/setup.sh
	@mkdir -p $(STAMPS)
	@sh testbed/setup.sh "$(PYTHON)"
	@touch $@

$(STAMPS)/venv: $(STAMPS)/system
	@echo "making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check 'uv>=0.13' 2>$(STAMPS)/uv.log || \
		echo "installing without uv, which takes twice as long (see $(STAMPS)/uv.log)"
	@# Behind a registry without cache headers, uv keeps each build of pyspark, 1.4 GB, until it is pruned.
	@if [ -x $(BIN)/uv ]; then $(BIN)/uv cache prune --quiet || true; fi
	@touch $@

# By uv, which takes half of pip's time; by pip where uv cannot, or where pip is told of another index.
install = if [ -x $(BIN)/uv ] && ! $(BIN)/pip config list | grep -q '[.]index-url='; then \
	$(BIN)/uv pip install --quiet --system-certs --python $(BIN)/python --editable $(1); else false; fi || \
	$(BIN)/pip install --quiet --disable-pip-version-check --editable $(1)

# In a variable, as a comma would end the argument.
EXTRAS := testbed,sail
$(STAMPS)/run: $(STAMPS)/venv pyproject.toml
	@echo "installing feednet and its libraries (Spark is large; once)"
	@$(call install,'.[$(EXTRAS)]')
	@touch $@

$(STAMPS)/dev: $(STAMPS)/venv pyproject.toml
	@echo "installing feednet, its libraries and what the tests need (Spark is large; once)"
	@$(call install,'.[dev]')
	@touch $(STAMPS)/run $@

LATEX := texlive-latex-base texlive-latex-recommended texlive-fonts-recommended
$(STAMPS)/latex:
	@mkdir -p $(STAMPS)
	@command -v pdflatex >/dev/null || { [ "$$(id -u)" -eq 0 ] && apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends $(LATEX) >/dev/null; } || \
		{ echo "missing: pdflatex. On Debian or Ubuntu: sudo apt install --no-install-recommends $(LATEX)"; exit 1; }
	@touch $@

$(STAMPS)/docs: $(STAMPS)/venv pyproject.toml
	@echo "installing what makes a site of the documents"
	@$(call install,'.[docs]')
	@touch $@

# Anew when what is compiled has changed, or when there was no compiler.
$(STAMPS)/compiled: $(STAMPS)/dev setup.py pyproject.toml testbed/compile.sh \
		$(shell find base forwarder topologies/emulator captures/formats captures/layers testbed/verify -name '*.py') \
		topologies/pipe.py ssb/bipf.py ssb/canonical.py
	@sh testbed/compile.sh $(BIN)/python $(COMPILED) && if [ -d $(COMPILED) ]; then touch $@; fi

clean:
	rm -rf $(VENV) $(STAMPS) $(COMPILED) build site paper/build *.egg-info
