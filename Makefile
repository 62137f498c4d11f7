# Two commands do everything on a fresh machine: `make bench` and `make test`.
# ARGS goes to the command that a target runs: make bench ARGS="--contender opportune,threads --seconds 30"

ARGS ?=
export PREFIX ?= /usr/local
export DESTDIR ?=
.DEFAULT_GOAL := help
.PHONY: help bench test bench-micro format lint sanitize docs requirements clibrary install install-clibrary uninstall \
  uninstall-clibrary library install-library uninstall-library deb clean

help: ## Print this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo '  ARGS="…" goes to the command that the target runs.'

bench: ## Install what is missing, build the release, measure a search server beside its own indexing.
	@scripts/bench $(ARGS)

test: ## Install what is missing, build, run the Swift and C tests.
	@scripts/test $(ARGS)

bench-micro: ## Run the micro-benchmarks of bench/: the cost of one operation at a time.
	@scripts/bench-micro $(ARGS)

format: ## Format the Swift sources in place.
	@scripts/format

lint: ## Check the format, and compile our own targets with warnings as errors.
	@scripts/lint

sanitize: ## Run the concurrent tests under the thread and address sanitizers.
	@scripts/sanitize $(ARGS)

docs: ## Build the documentation into docs/.docc-build.
	@scripts/docs $(ARGS)

requirements: ## Write docs/requirements.md anew from the ids that tests name.
	@scripts/requirements $(ARGS)

clibrary: ## Build the C core and the client of the host as libraries of their own, which need no Swift.
	@$(MAKE) -s -C CSupport/OpportuneCore
	@$(MAKE) -s -C CSupport/OpportuneClient

install: install-clibrary ## Install the command, units, manual page, completions, the explorer, the C libraries: PREFIX=/usr/local, DESTDIR= for packagers.
	@scripts/install

install-clibrary: ## Install the C libraries alone, without Swift.
	@$(MAKE) -s -C CSupport/OpportuneCore install
	@$(MAKE) -s -C CSupport/OpportuneClient install

library: ## Build libopportune, all of it for programs without Swift, with the Swift runtime inside.
	@$(MAKE) -s -C CSupport/OpportuneC

install-library: ## Install libopportune alone.
	@$(MAKE) -s -C CSupport/OpportuneC install

uninstall-library: ## Take away libopportune.
	@$(MAKE) -s -C CSupport/OpportuneC uninstall

uninstall: uninstall-clibrary ## Take away what install has put there; the same PREFIX and DESTDIR.
	@scripts/install --uninstall

uninstall-clibrary: ## Take away the C libraries.
	@$(MAKE) -s -C CSupport/OpportuneCore uninstall
	@$(MAKE) -s -C CSupport/OpportuneClient uninstall

deb: ## Build Debian packages of the command and of the C libraries; ARGS=--check has lintian look at them.
	@scripts/deb $(ARGS)

clean: ## Remove everything that was built.
	rm -rf .build .build-* bench/.build docs/examples/rocksdb/.build Integrations/*/.build docs/examples/rust/target \
	  docs/examples/libopportune/rust/target docs/.docc-build
