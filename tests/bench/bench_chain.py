#!/usr/bin/env python3
"""An 8-op fp32 pointwise chain on the neuron device in adaptive mode against CPU eager: interpreter and JIT apart."""
import os
import sys

import turns

WORKERS = {
    "cpu": {},
    "interpret": {"TORCH_NEURON_ADAPTIVE": "1", "NAX_TIER": "interpret"},
    "jit": {"TORCH_NEURON_ADAPTIVE": "1", "NAX_TIER": "jit"},
    "auto": {"TORCH_NEURON_ADAPTIVE": "1"},
}
CASES = [(f"{n} elements, {t} thread{'s' if t > 1 else ''}", (n, t))
         for n in (16 * 1024, 256 * 1024, 4 * 1024 * 1024) for t in (1, 2) if t <= (os.cpu_count() or 1)]


def chain(x, y):
    a = x * y
    b = a + x
    c = b - 0.5
    d = c.relu()
    e = d * 1.5
    f = e + y
    g = f.abs()
    return g * x


def work(name, case):
    import torch

    n, threads = case
    device = "cpu" if name == "cpu" else "neuron"
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(n, generator=generator).to(device) for _ in range(2))
    if device == "cpu":
        return turns.time_loop(lambda: chain(x, y))
    expected = chain(x.cpu(), y.cpu())
    torch.testing.assert_close(chain(x, y).cpu(), expected)

    def iterate():
        z = chain(x, y)
        torch.neuron.synchronize()
        return z

    return turns.time_loop(iterate)


if __name__ == "__main__":
    sys.exit(turns.main(__file__, WORKERS, CASES, work, "cpu"))
