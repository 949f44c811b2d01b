# SPDX-License-Identifier: Apache-2.0

# Everything happens in this directory: a virtual environment in .venv, and
# servers for tests in temporary directories. Packages of the system are
# installed only where one is missing, and none of their services is started.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VENV := .venv
OPENSTACK_VENV := .venv-openstack
BIN := $(VENV)/bin
REQUIREMENTS := pyproject.toml setup.cfg requirements.txt
# Most of what comes is never imported.
PIP_INSTALL := -m pip --disable-pip-version-check install --quiet --no-compile
PIP := $(BIN)/python $(PIP_INSTALL)
# What runs in one environment with Nova; tests say so.
OPENSTACK_EXTRAS := allinone,cli,limits,mysql,postgresql
STRICT := $(patsubst %/,%,$(wildcard $(addsuffix /,$(addprefix fpgapool/,\
    core strategies protocol sim vocabulary) reproduction)))

SHELL_SCRIPTS := devstack/plugin.sh devstack/settings devstack/lib/fpgapool \
    tests/functional/devstack/standins.sh tools/apt-install \
    tools/create-venv tools/install-browser tools/install-services \
    tools/install-java tools/install-languages tools/install-libvirt tools/install-simgrid tools/install-vm \
    tools/make-release .ci/run

# Without git's history (an unpacked archive, or a checkout that belongs to
# another user) pbr cannot tell the version; it does not matter here.
ifeq ($(shell git rev-parse --verify --quiet HEAD 2>/dev/null),)
export PBR_VERSION ?= 0.0.0
endif

# Tests start hundreds of processes, each of which would compile all that it
# imports; and what pip installs here is compiled when it is imported first.
unexport PYTHONDONTWRITEBYTECODE

# The same examples at every run; 'make test HYPOTHESIS_PROFILE=dev' explores.
export HYPOTHESIS_PROFILE ?= $(if $(filter test-all,$(MAKECMDGOALS)),full,ci)

# How many processes run tests side by side. Many tests wait more than they
# compute, so that two processors serve three.
TEST_PROCESSES ?= 3

.PHONY: help
help: ## say what can be made
	@echo "usage: make TARGET"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' \
	    $(firstword $(MAKEFILE_LIST)) | LC_ALL=C sort

$(BIN)/python:
	@tools/create-venv $(VENV)

# Stamps: what was asked for has been installed. Installed again on a change.
# Type checkers do not see what the other modes of editing install.
EVERYTHING := --config-settings editable_mode=compat --editable '.[all]'
$(VENV)/.installed: $(REQUIREMENTS) | $(BIN)/python
	@echo "== installing fpgapool and what it needs into $(VENV)"
	@$(PIP) $(EVERYTHING)
	@touch $@

# In one run of the resolver, which takes longest, with all that is above.
CHECKS := test-requirements.txt doc/requirements.txt
$(VENV)/.installed-test: $(CHECKS) $(REQUIREMENTS) | $(BIN)/python
	@echo "== installing fpgapool and what checks it into $(VENV)"
	@$(PIP) $(EVERYTHING) $(addprefix --requirement ,$(CHECKS))
	@touch $(VENV)/.installed $@

# Services of OpenStack, and fpgapool as an operator installs it beside them:
# one run of the resolver, so that all of it does fit together.
OPENSTACK_REQUIREMENTS := tests/services/openstack-requirements.txt
# Services start at the same time, and each would compile what all import.
OPENSTACK_MODULES := nova.compute.manager, nova.virt.fake, \
    nova.conductor.manager, nova.scheduler.manager, nova.api.openstack.compute, \
    keystone.server.flask.application, glance.api.v2.router, placement.handler
$(OPENSTACK_VENV)/.installed: $(OPENSTACK_REQUIREMENTS) $(REQUIREMENTS)
	@[ -x $(OPENSTACK_VENV)/bin/python ] || tools/create-venv $(OPENSTACK_VENV)
	@echo "== installing services of OpenStack and fpgapool" \
	    "into $(OPENSTACK_VENV)"
	@$(OPENSTACK_VENV)/bin/python $(PIP_INSTALL) \
	    --requirement $(OPENSTACK_REQUIREMENTS) \
	    --editable '.[$(OPENSTACK_EXTRAS)]'
	@$(OPENSTACK_VENV)/bin/python -m pip --disable-pip-version-check check
	@$(OPENSTACK_VENV)/bin/python -W ignore -c 'import $(OPENSTACK_MODULES)'
	@touch $@

# What any test needs, besides fpgapool, in an environment of its own: pytest,
# and what tests/conftest.py imports.
TEST_TOOLS := hypothesis 'psycopg[binary]' PyMySQL pytest pytest-timeout \
    pytest-xdist

# What unit tests pass with besides the newest versions: those of OpenStack's
# oldest release that is supported, and the oldest ones that are declared.
RELEASE := 2026.1
UNIT_TOOLS := $(TEST_TOOLS) build greenlet openapi-spec-validator pyopencl \
    'setuptools>=77'

build/lower-bounds.txt: tools/lower-bounds $(REQUIREMENTS) | $(BIN)/python
	@mkdir -p $(@D)
	@$(BIN)/python $< >$@

.venv-$(RELEASE)/.installed: CONSTRAINTS := tests/constraints/$(RELEASE).txt
.venv-$(RELEASE)/.installed: tests/constraints/$(RELEASE).txt
.venv-lowest/.installed: CONSTRAINTS := build/lower-bounds.txt
.venv-lowest/.installed: build/lower-bounds.txt
.venv-$(RELEASE)/.installed .venv-lowest/.installed: $(REQUIREMENTS)
	@[ -x $(@D)/bin/python ] || tools/create-venv $(@D)
	@echo "== installing fpgapool into $(@D) with $(CONSTRAINTS)"
	@$(@D)/bin/python $(PIP_INSTALL) --constraint $(CONSTRAINTS) \
	    $(EVERYTHING) $(UNIT_TOOLS)
	@touch $@

# The libraries alone, before those of $(VENV): seconds.
CLI_LIBRARIES := cliff keystoneauth1 openstacksdk osc-lib \
    python-cinderclient python-openstackclient requestsexceptions
build/cli-$(RELEASE)/.installed: tests/constraints/$(RELEASE).txt
build/cli-$(RELEASE)/.installed: | $(BIN)/python
	@rm -rf $(@D)
	@$(PIP) --constraint $< --no-deps --target $(@D) $(CLI_LIBRARIES)
	@touch $@

.PHONY: test-cli
test-cli: $(VENV)/.installed-test build/cli-$(RELEASE)/.installed
test-cli: ## test the openstack command with the libraries of 2026.1
	@PYTHONPATH=build/cli-$(RELEASE) $(BIN)/python -m pytest --quiet \
	    tests/unit/osc

.PHONY: venv
venv: $(VENV)/.installed ## create .venv with fpgapool and its commands in it
	@echo "next: $(BIN)/fpgapool-allinone starts a pool on this machine"

.PHONY: demo
demo: $(VENV)/.installed ## show a small cluster at work; FILES="A B" adds yours
	@echo "== running the demo"
	@$(BIN)/python -m demo $(if $(DRIVER),--driver $(DRIVER)) \
	    $(foreach file,$(FILES),--file '$(file)')

.PHONY: services
services: ## install RabbitMQ, databases, XRT, PoCL; starts none
	@tools/install-services

.PHONY: openstack-venv
openstack-venv: $(VENV)/.installed-test
openstack-venv: $(OPENSTACK_VENV)/.installed services
openstack-venv: ## install what tools/ministack starts

# The gate installs the rest, beside what does not need it. There, nobody would
# see that sudo asks for a password.
.PHONY: test test-all
test: ## check style, types, docs, and all tests but long ones
test-all: ## check everything, long tests too
test-all: GATE_OPTIONS := --all
test test-all: $(VENV)/.installed-test
	@[ "$$(id -u)" -eq 0 ] || tools/install-services
	@$(BIN)/python -m tests.gate --processes $(TEST_PROCESSES) $(GATE_OPTIONS)

# What the other tests share needs what is not there.
NOVA_FILTERS_TESTS := $(OPENSTACK_VENV)/bin/python -m pytest \
    --confcutdir tests/nova_filters tests/nova_filters

.PHONY: integration
integration: openstack-venv ## run the tests with services of OpenStack only
	@echo "== running the tests with services of OpenStack"
	@$(BIN)/python -m pytest tests/integration
	@echo "== running the tests of fpgapool_nova_filters, beside Nova"
	@$(NOVA_FILTERS_TESTS)

# Selenium and axe come apart: no other test needs them.
$(VENV)/.installed-browser: $(VENV)/.installed-test tools/install-browser
	@tools/install-browser
	@echo "== installing what drives a browser into $(VENV)"
	@$(PIP) 'selenium>=4.25'
	@npm install --silent --no-save --ignore-scripts \
	    --prefix $(VENV)/browser axe-core@4.14.1
	@touch $@

.PHONY: browser
browser: $(VENV)/.installed-browser
browser: ## install Chromium, Selenium, axe and Prometheus if missing
	@tools/install-browser

.PHONY: test-ui
test-ui: openstack-venv browser ## test the live page in Chromium; minutes
	@echo "== testing the live page and the dashboard"
	@$(BIN)/python -m pytest tests/ui $(if $(PICTURE),--picture=$(PICTURE))

# Apart from the rest: what only notebooks need.
NOTEBOOK_VENV := .venv-notebooks
NOTEBOOK_TOOLS := $(TEST_TOOLS) ipykernel nbclient nbformat 'pandas>=2.2,<3'
$(NOTEBOOK_VENV)/.installed: $(REQUIREMENTS)
	@[ -x $(@D)/bin/python ] || tools/create-venv $(@D)
	@echo "== installing Jupyter's kernel, pandas and fpgapool into $(@D)"
	@$(@D)/bin/python $(PIP_INSTALL) --editable '.[allinone,sim]' \
	    $(NOTEBOOK_TOOLS)
	@touch $@

.PHONY: notebook-venv
notebook-venv: $(NOTEBOOK_VENV)/.installed

.PHONY: test-notebooks
test-notebooks: notebook-venv ## run the notebooks of the documentation
	@echo "== running the notebooks of the documentation"
	@$(NOTEBOOK_VENV)/bin/python -m pytest tests/notebooks

# Apart from the rest: Spark is half a gigabyte.
SPARK_VENV := .venv-spark
SPARK_EXTRAS := allinone,cli,plot,spark
SPARK_TOOLS := $(TEST_TOOLS) requests scikit-learn
$(SPARK_VENV)/.installed: $(REQUIREMENTS)
	@[ -x $(@D)/bin/python ] || tools/create-venv $(@D)
	@echo "== installing Spark and fpgapool into $(@D)"
	@$(@D)/bin/python $(PIP_INSTALL) --editable '.[$(SPARK_EXTRAS)]' \
	    $(SPARK_TOOLS)
	@touch $@

.PHONY: spark-venv
spark-venv: $(SPARK_VENV)/.installed
spark-venv: ## install Spark and, if missing, Java
	@tools/install-java

.PHONY: test-spark
test-spark: spark-venv ## test fpgapool.spark with real executors; minutes
	@echo "== testing fpgapool.spark"
	@$(SPARK_VENV)/bin/python -m pytest tests/spark

.PHONY: languages
languages: ## install a C compiler and Node.js if missing
	@tools/install-languages

.PHONY: test-clients
test-clients: $(VENV)/.installed-test languages
test-clients: ## test the clients in C and JavaScript in a pool; seconds
	@echo "== testing the clients in other languages"
	@$(BIN)/python -m pytest tests/clients

# Apart from the rest: Ansible with its collections is half a gigabyte.
DEPLOY_VENV := .venv-deploy
DEPLOY_REQUIREMENTS := tests/deploy/requirements.txt
$(DEPLOY_VENV)/.installed: $(DEPLOY_REQUIREMENTS) $(REQUIREMENTS)
	@[ -x $(@D)/bin/python ] || tools/create-venv $(@D)
	@echo "== installing Ansible, Helm and fpgapool into $(@D)"
	@$(@D)/bin/python $(PIP_INSTALL) --requirement $(DEPLOY_REQUIREMENTS) \
	    --editable '.[allinone,cli]' $(TEST_TOOLS)
	@touch $@

.PHONY: deploy-venv
deploy-venv: $(DEPLOY_VENV)/.installed ## install Ansible and Helm

.PHONY: test-deploy
test-deploy: deploy-venv $(OPENSTACK_VENV)/.installed services
test-deploy: ## test the chart, the role and the collection of deploy/; minutes
	@echo "== testing deploy/"
	@$(DEPLOY_VENV)/bin/python -m pytest tests/deploy

# Apart from the rest, as it is on an operator's machine.
TEMPEST_VENV := .venv-tempest
$(TEMPEST_VENV)/.installed: $(REQUIREMENTS)
	@[ -x $(@D)/bin/python ] || tools/create-venv $(@D)
	@echo "== installing Tempest and fpgapool into $(@D)"
	@$(@D)/bin/python $(PIP_INSTALL) --editable '.[tempest]' hacking
	@touch $@

.PHONY: tempest-venv
tempest-venv: $(TEMPEST_VENV)/.installed ## install Tempest with its plugin

.PHONY: test-tempest
test-tempest: openstack-venv tempest-venv ## run the plugin of Tempest; minutes
	@echo "== testing a pool beside Nova with Tempest"
	@$(BIN)/python -m pytest --capture=no tests/tempest

# Apart from the rest: Horizon stands on a machine of its own, too.
HORIZON_VENV := .venv-horizon
$(HORIZON_VENV)/.installed: $(REQUIREMENTS)
	@[ -x $(@D)/bin/python ] || tools/create-venv $(@D)
	@echo "== installing Horizon and fpgapool into $(@D)"
	@$(@D)/bin/python $(PIP_INSTALL) --editable '.[dashboard]'
	@touch $@

.PHONY: horizon-venv
horizon-venv: browser $(HORIZON_VENV)/.installed
horizon-venv: ## install Horizon with the panels, and Chromium if missing

.PHONY: test-horizon
test-horizon: openstack-venv horizon-venv ## test Horizon's panels; minutes
	@echo "== testing the panels of Horizon in Chromium"
	@$(BIN)/python -m pytest tests/horizon

# Heat stands on a machine of its own, too. Its database is MariaDB.
HEAT_VENV := .venv-heat
$(HEAT_VENV)/.installed: $(REQUIREMENTS)
	@[ -x $(@D)/bin/python ] || tools/create-venv $(@D)
	@echo "== installing Heat and fpgapool into $(@D)"
	@$(@D)/bin/python $(PIP_INSTALL) --editable '.[heat,mysql]'
	@touch $@

.PHONY: heat-venv
heat-venv: $(HEAT_VENV)/.installed
heat-venv: ## install Heat with the resources if missing

.PHONY: test-heat
test-heat: openstack-venv heat-venv ## test Heat's resources; a minute
	@echo "== testing the resources of Heat"
	@$(BIN)/python -m pytest tests/heat

# Blazar's manager stands on a machine of its own, too; users have its client.
BLAZAR_VENV := .venv-blazar
BLAZAR_TOOLS := python-blazarclient python-openstackclient pyuwsgi
$(BLAZAR_VENV)/.installed: $(REQUIREMENTS)
	@[ -x $(@D)/bin/python ] || tools/create-venv $(@D)
	@echo "== installing Blazar and fpgapool into $(@D)"
	@$(@D)/bin/python $(PIP_INSTALL) --editable '.[blazar,mysql]' \
	    $(BLAZAR_TOOLS)
	@touch $@

.PHONY: blazar-venv
blazar-venv: $(BLAZAR_VENV)/.installed
blazar-venv: ## install Blazar with the plugin if missing

.PHONY: test-blazar
test-blazar: openstack-venv blazar-venv ## test Blazar's plugin; minutes
	@echo "== testing the plugin of Blazar"
	@$(BIN)/python -m pytest tests/blazar

# The release before, with the versions that its own tests passed with. Its
# tests come, too: its clients are theirs.
OLD_VENV := .venv-old-release
$(OLD_VENV)/.installed: tests/functional/system/old_release
$(OLD_VENV)/.installed: | $(VENV)/.installed-test
	@tools/create-venv $(@D)
	@$(BIN)/python -m tests.harness.releases $(@D)/src
	@echo "== installing the release before into $(@D)"
	@PBR_VERSION=1.0.0 $(@D)/bin/python $(PIP_INSTALL) \
	    --constraint $(@D)/src/constraints.txt gunicorn 'psycopg[binary]' \
	    --editable '$(@D)/src[allinone,cli,mysql,postgresql]'
	@touch $@

.PHONY: old-release
old-release: $(OLD_VENV)/.installed ## install the release before beside this one

.PHONY: test-upgrade
test-upgrade: openstack-venv old-release
test-upgrade: ## upgrade a pool under load, and back; 20 minutes
	@echo "== upgrading a pool under load"
	@$(BIN)/python -m pytest tests/upgrade --capture=no

# Apart from the rest: QEMU and libvirt, beside Nova.
$(OPENSTACK_VENV)/.installed-libvirt: $(OPENSTACK_VENV)/.installed
$(OPENSTACK_VENV)/.installed-libvirt: tools/install-libvirt
	@$< $(OPENSTACK_VENV) build/vm
	@touch $@

.PHONY: libvirt
libvirt: $(OPENSTACK_VENV)/.installed-libvirt ## install libvirt and QEMU if missing

.PHONY: test-moves
test-moves: openstack-venv libvirt ## move streaming instances; MOVES=20 times each
	@echo "== moving instances that stream"
	@MOVES=$(MOVES) $(BIN)/python -m pytest tests/moves

MOVES ?= 2

.PHONY: test-walls
test-walls: $(VENV)/.installed-test ## attack workers, on Debian's kernel, too; minutes
	@echo "== attacking workers and desks on this machine's kernel"
	@$(BIN)/python -m pytest tests/walls
	@echo "== attacking workers and desks in a virtual machine"
	@$(BIN)/python -m tests.walls.vm

.PHONY: figures
figures: $(VENV)/.installed-test ## papers' figures, into figures-out/; ONLY="7 12"
	@$(BIN)/python -m reproduction figures $(or $(ONLY),all) \
	    --out figures-out $(FIGURES_OPTIONS)

.PHONY: test-reproduction
test-reproduction: $(VENV)/.installed-test ## simulate the reference tables; minutes
	@echo "== comparing the simulator with the reference tables"
	@$(BIN)/python -m pytest tests/reproduction

.PHONY: test-simgrid
test-simgrid: $(VENV)/.installed-test build/simgrid-flows ## compare with SimGrid
	@echo "== comparing the ends of jobs with SimGrid"
	@$(BIN)/python -m pytest tests/simgrid
	@echo "== comparing the time for it with SimGrid"
	@$(BIN)/python -m tests.simgrid $(BENCH_OPTIONS)

build/simgrid-flows: tests/simgrid/flows.cpp
	@tools/install-simgrid
	@mkdir -p $(@D)
	@$(CXX) -std=c++17 -O2 -Wall -Wextra -o $@ $< -lsimgrid

.PHONY: bench
bench: $(VENV)/.installed-test ## measure, into bench-out/; ONLY="A B" selects
	@echo "== running the benchmarks"
	@$(BIN)/python -m tests.benchmarks $(ONLY) $(BENCH_OPTIONS)

.PHONY: chaos
chaos: $(VENV)/.installed-test services
chaos: ## faults on a pool under load, into chaos-out/; 15 minutes
	@echo "== running the faults"
	@$(BIN)/python -m tests.chaos $(CHAOS_OPTIONS)

.PHONY: scale
scale: $(VENV)/.installed-test services
scale: ## 1,000 agents without workers, into scale-out/
	@echo "== running a big pool"
	@$(BIN)/python -m tests.scale $(SCALE_OPTIONS)

.PHONY: world
world: $(VENV)/.installed-test ## simulate whole pools; SEEDS=1:500 says which
	@echo "== playing schedules"
	@$(BIN)/python -m tests.world --seeds $(SEEDS) $(WORLD_OPTIONS)

SEEDS ?= 1:100

.PHONY: fuzz
fuzz: $(VENV)/.installed-test ## send much more nonsense than test does; minutes
	@echo "== fuzzing"
	@HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest --timeout 0 \
	    tests/property/test_secrets.py tests/property/test_stream.py \
	    $(wildcard tests/property/test_fuzz_*.py)

.PHONY: lint
lint: style types ## check style, format and types

.PHONY: style
style: $(VENV)/.installed-test ## check style and format; seconds
	@echo "== ruff check"
	@$(BIN)/ruff check .
	@echo "== ruff format --check"
	@$(BIN)/ruff format --check .
	@echo "== bashate"
	@$(BIN)/bashate $(SHELL_SCRIPTS)
	@echo "== shellcheck"
	@$(BIN)/shellcheck --external-sources $(SHELL_SCRIPTS)

.PHONY: types
types: $(VENV)/.installed-test ## check types
	@echo "== mypy $(STRICT)"
	@$(BIN)/mypy $(STRICT)

.PHONY: docs
docs: $(VENV)/.installed-test ## make the documentation, in build/docs
	@echo "== reno lint"
	@$(BIN)/reno --quiet lint
	@echo "== sphinx-build"
	@$(BIN)/sphinx-build $(SPHINX_OPTIONS) doc/source build/docs/html
	@$(BIN)/sphinx-build $(SPHINX_OPTIONS) releasenotes/source \
	    build/docs/releasenotes
	@echo "wrote build/docs/html/index.html"

# A warning is an error.  All pages are read: of a page that has not changed
# Sphinx would leave out what the search knows by '.. index::'.
SPHINX_OPTIONS := --fail-on-warning --fresh-env --keep-going --quiet -b html

.PHONY: format
format: $(VENV)/.installed-test ## format the sources and sort imports
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: sample-config
sample-config: $(VENV)/.installed ## write the samples in etc/fpgapool
	@$(BIN)/oslo-config-generator \
	    --config-file etc/fpgapool/fpgapool-config-generator.conf
	@echo "wrote etc/fpgapool/fpgapool.conf.sample"
	@$(BIN)/oslopolicy-sample-generator \
	    --config-file etc/fpgapool/fpgapool-policy-generator.conf
	@echo "wrote etc/fpgapool/policy.yaml.sample"

# All that is in the first environment, and what only users of the other need.
FREEZE := -m pip --disable-pip-version-check freeze --all --exclude pip \
    --exclude-editable
ONLY_TEMPEST := defusedxml|fixtures|invoke|paramiko|PyNaCl|python-subunit
ONLY_TEMPEST := $(ONLY_TEMPEST)|stestr|tempest|testtools|tomlkit|voluptuous
ONLY_HORIZON := XStatic.*|Django|asgiref|django[-_].*|horizon|libsass
ONLY_HORIZON := $(ONLY_HORIZON)|osprofiler|pyOpenSSL|qrcode
ONLY_HORIZON := $(ONLY_HORIZON)|python-(cinder|glance|nova|swift)client|rcssmin
ONLY_HORIZON := $(ONLY_HORIZON)|rjsmin|semantic.version|sqlparse|warlock
ONLY_HEAT := aodhclient|cotyledon|croniter|docker|lxml|ncclient|neutron-lib
ONLY_HEAT := $(ONLY_HEAT)|openstack-heat|os-(ken|traits)|oslo.versionedobjects
ONLY_HEAT := $(ONLY_HEAT)|ovs|pecan|python-(barbican|blazar|designate)client
ONLY_HEAT := $(ONLY_HEAT)|python-(heat|ironic|magnum|mistral|neutron)client
ONLY_HEAT := $(ONLY_HEAT)|python-(octavia|trove|zaqar|zun)client|setproctitle
ONLY_HEAT := $(ONLY_HEAT)|tenacity|websocket-client|yaql
ONLY_BLAZAR := WSME|blazar|blinker|flask|itsdangerous|microversion.parse
ONLY_BLAZAR := $(ONLY_BLAZAR)|retrying|simplegeneric
.PHONY: constraints
constraints: $(VENV)/.installed-browser $(OPENSTACK_VENV)/.installed
constraints: $(SPARK_VENV)/.installed $(TEMPEST_VENV)/.installed
constraints: $(HORIZON_VENV)/.installed $(HEAT_VENV)/.installed
constraints: $(NOTEBOOK_VENV)/.installed $(BLAZAR_VENV)/.installed
constraints: ## write the installed versions to constraints.txt
	@{ echo "# Versions that all tests have passed with; install.rst says what"; \
	    echo "# for. Written by 'make constraints', after 'make test-all'."; \
	    { $(BIN)/python $(FREEZE); \
	        $(OPENSTACK_VENV)/bin/python $(FREEZE) | grep '^pyuwsgi=='; \
	        $(SPARK_VENV)/bin/python $(FREEZE) \
	            | grep -E '^(pandas|py4j|pyarrow|pyspark)=='; \
	        $(NOTEBOOK_VENV)/bin/python $(FREEZE) \
	            | grep -E '^(ipykernel|nbclient|nbformat)=='; \
	        $(TEMPEST_VENV)/bin/python $(FREEZE) \
	            | grep -E '^($(ONLY_TEMPEST))=='; \
	        $(HORIZON_VENV)/bin/python $(FREEZE) \
	            | grep -E '^($(ONLY_HORIZON))=='; \
	        $(HEAT_VENV)/bin/python $(FREEZE) \
	            | grep -E '^($(ONLY_HEAT))=='; \
	        $(BLAZAR_VENV)/bin/python $(FREEZE) \
	            | grep -iE '^($(ONLY_BLAZAR))=='; \
	    } | LC_ALL=C sort --ignore-case --unique; } >constraints.txt
	@echo "wrote constraints.txt"

# Apart from the rest, as it is to describe other environments than its own.
SBOM_VENV := .venv-sbom
$(SBOM_VENV)/.installed:
	@tools/create-venv $(@D)
	@$(@D)/bin/python $(PIP_INSTALL) 'cyclonedx-bom>=7.5,<8'
	@touch $@

.PHONY: release
release: $(VENV)/.installed-test $(SBOM_VENV)/.installed
release: ## write a release to dist/; FPGAPOOL_COMPILE=1 adds a wheel
	@tools/make-release $(BIN) $(SBOM_VENV)/bin

.PHONY: notification-samples
notification-samples: $(VENV)/.installed ## write doc/notification_samples
	@$(BIN)/python tools/write-notification-samples doc/notification_samples
	@echo "wrote doc/notification_samples"

.PHONY: clean
clean: ## remove .venv and everything else that was made
	@if [ -e .ministack ]; then tools/ministack down --wipe; fi
	@rm -rf $(VENV) $(VENV)-* build dist *.egg-info .pytest_cache \
	    .mypy_cache .ruff_cache .hypothesis .tox
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "removed $(VENV), caches and build results"
