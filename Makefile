# Everything a person or CI does with a checkout. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# molecule looks into extensions/ by itself; this project keeps a top-level molecule/.
export MOLECULE_GLOB := molecule/*/molecule.yml

.PHONY: help
help: ## this list
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: setup
setup: ## .venv with all pinned tools (no root needed)
	@tests/setup/venv

.PHONY: system
system: ## packages of this machine that the lab needs (root; does nothing when they are there)
	@tests/setup/system

.PHONY: unit
unit: setup ## unit tests only (seconds)
	@tests/run unit

.PHONY: sanity
sanity: setup ## ansible-test sanity, linters, types, docs
	@tests/run sanity

.PHONY: test
test: system setup ## every tier that CI runs
	@tests/run unit sanity build molecule vm-left-out

.PHONY: full
full: system setup ## all of `test` and what takes long
	@tests/run unit sanity build molecule full vm-left-out

.PHONY: vm-system
vm-system: ## packages of this machine that test machines need (qemu, firmware; root)
	@tests/setup/system vm

.PHONY: vm
vm: system vm-system setup ## machines with a real kernel and Secure Boot (20 minutes and more)
	@tests/run vm

.PHONY: dkms
dkms: system setup ## real DKMS builds of Debian's driver (6 to 8 minutes each)
	@tests/run dkms

.PHONY: bench
bench: setup ## measured figures, one JSON line each
	@tests/run-bench

.PHONY: demo
demo: system setup ## the stack on a simulated fleet, and its report
	@tests/demo/run

.PHONY: clean
clean: ## remove the lab (hosts, network, images) and build products; .venv stays
	@[ ! -d .build/vm ] || tests/vm/vm down
	@for lab in .lab/*/; do [ ! -d "$$lab" ] || LAB_NAME=$$(basename "$$lab") tests/lab/lab clean; done
	@rm -rf .build .ansible .mypy_cache .ruff_cache .pytest_cache tests/output *.tar.gz
