# Every target sets itself up: the first one run creates .venv, later ones install nothing.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALLED := .venv/.installed
# Two test processes, one thread each: what two cores do best, and repeatable to the last bit.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2
# An environment without torch or any other extra, in which core tests run; they have to give the same answers.
LIGHT := .venv-light
LIGHT_TESTS := tests/test_light.py tests/pins tests/linear tests/paths tests/ope/finite --ignore tests/ope/finite/test_streamed_counts.py

.PHONY: leaderboard paper test light check format pins docs bench mutants slow clean

leaderboard: $(INSTALLED)
	$(BIN)/ope-vpm leaderboard

# The page in docs/leaderboard, and its picture; goes on where it was stopped.
paper: $(INSTALLED)
	$(BIN)/ope-vpm leaderboard --suite paper --output results/paper --resume
	mkdir -p docs/leaderboard
	cp results/paper/index.html results/paper/leaderboard.csv results/paper/leaderboard.md docs/leaderboard/
	chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --hide-scrollbars \
		--user-data-dir=$$(mktemp -d) --window-size=1280,1250 --screenshot=docs/leaderboard/picture.png \
		file://$(CURDIR)/docs/leaderboard/index.html

test: $(INSTALLED) light
	$(PYTEST)

# Without a package index within reach the other tests run nevertheless.
light:
	@$(MAKE) --quiet $(LIGHT)/.installed || echo "$(LIGHT) could not be installed: its tests are left out" >&2
	@test ! -e $(LIGHT)/.installed || \
		OMP_NUM_THREADS=1 $(LIGHT)/bin/python -m pytest -q -m "not slow and not long" $(LIGHT_TESTS)

check: $(INSTALLED) light
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST)

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Which of the answers that may not change unnoticed have moved, and from what to what.
pins: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.pins

# The site, in site/; a warning is an error. NO_MKDOCS_2_WARNING: its theme announces its successor at every build.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Do the tests notice a changed expression? Prints those that no test noticed; goes on where it was stopped.
mutants: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutation

# A thousand damaged files for every reader; about twenty minutes.
slow: $(INSTALLED)
	$(PYTEST) -m long -rP

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv $(LIGHT) site build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11')"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all,dev]'
	touch $@

$(LIGHT)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(LIGHT)
	$(LIGHT)/bin/python -m pip install --quiet --constraint constraints.txt --editable . pytest
	touch $@
