# make demo   train a small Llama on the emulated device (sets everything up first)
# make test   every suite
# make build  set up and compile;  make setup  set up alone;  make clean  remove build output (keeps .venv)
.PHONY: help demo test build setup clean
.NOTPARALLEL:

help:
	@sed -n '1,/^$$/s/^# //p' Makefile

# PYTHON names another Python 3.11: make test PYTHON=...
export PYTHON

setup:
	@api/cmake/setup.sh

build: setup
	@api/cmake/build.sh release

test: build
	@api/cmake/test.sh

demo: build
	@.venv/bin/python examples/train_llama.py --demo

clean:
	rm -rf build api/python/torch_nax/*.so
