#!/usr/bin/env python3
"""What recording an op costs from C++: at::add on two 16-element fp32 tensors, same-shape fast path, origin capture on,
against CPU eager's whole op. The rounds stay below the window's op budget, so that recording alone is on the clock."""
import glob
import importlib.util
import os
import sys

import turns

WORKERS = {"cpu": {}, "recorded": {"TORCH_NEURON_ADAPTIVE": "1"}}


def load_module():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = sorted(glob.glob(os.path.join(root, "build", "*", "tests", "nax_record_bench*.so")), key=os.path.getmtime)
    if not found:
        raise SystemExit("nax_record_bench is not built: run make build first")
    spec = importlib.util.spec_from_file_location("nax_record_bench", found[-1])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def work(name, count):
    import torch

    torch.set_num_threads(1)
    module = load_module()
    device = "cpu" if name == "cpu" else "neuron"
    a, b = torch.randn(16).to(device), torch.randn(16).to(device)
    between = torch.neuron.synchronize if device == "neuron" else lambda: None
    module.time_add(a, b, count, 200, between)
    return module.time_add(a, b, count, 2000, between) * 1e-9


if __name__ == "__main__":
    sys.exit(turns.main(__file__, WORKERS, [("at::add on 2 x 16 elements", 200)], work, "cpu"))
