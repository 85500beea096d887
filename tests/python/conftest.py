"""Every test starts with clean counters and leaves the mode as it was. Programs that need a fresh process or an environment
of their own run through `run_python`."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch


@pytest.fixture(autouse=True)
def _clean_device():
    torch.manual_seed(0)
    torch.neuron.reset_stats()
    yield
    torch.neuron.set_mode("eager")


@pytest.fixture(params=["eager", "adaptive"])
def mode(request):
    torch.neuron.set_mode(request.param)
    yield request.param


class Finished:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def run_python(tmp_path):
    """run_python(source, ENV=value...) runs source in a new interpreter; NAX_CACHE_DIR is the test's own."""

    def run(source, timeout=120, **environment):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("NAX_", "TORCH_NEURON", "NEURON_"))}
        env["NAX_CACHE_DIR"] = str(tmp_path / "cache")
        env.update({k: str(v) for k, v in environment.items()})
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(source)], env=env, capture_output=True, text=True, timeout=timeout
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    return run
