"""Comparing a program on the device with the same program on the CPU."""

import contextlib

import torch

TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def agree(got, expected, tolerance=None):
    """Shapes and dtypes equal; values equal where exact, near where floating."""
    got = got.cpu()
    assert got.shape == expected.shape and got.dtype == expected.dtype, (got.shape, got.dtype, expected.shape, expected.dtype)
    limit = tolerance if tolerance is not None else TOLERANCE.get(got.dtype, 0)
    torch.testing.assert_close(got, expected, rtol=limit, atol=limit, equal_nan=True)


@contextlib.contextmanager
def no_fallback():
    """What runs inside has a lowering."""
    before = dict(torch.neuron.fallback_ops())
    yield
    after = {k: v for k, v in torch.neuron.fallback_ops().items() if v != before.get(k, 0)}
    assert not after, after
