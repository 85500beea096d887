"""A Python number meets a tensor in the tensor's dtype, as on the CPU: bools ask for nonzero, narrow integers wrap."""

import pytest
import torch


@pytest.mark.parametrize("value", [0.3, -0.5, 2**32, 2**33, 0, 1])
def test_numbers_become_bools_by_nonzero(value, mode):
    def run(device):
        x = torch.tensor([False, True], device=device)
        full = torch.full((2,), value, dtype=torch.bool, device=device)
        filled = x.clone().fill_(value)
        return [t.tolist() for t in (full, filled, x.masked_fill(x, value))]

    assert run("neuron") == run("cpu")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
@pytest.mark.parametrize("value", [-1, -3, 200, 257, 2**15 + 3, 2**32 + 5])
def test_narrow_integers_wrap_numbers(dtype, value, mode):
    ops = [torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge, torch.add, torch.mul]
    ops += [torch.remainder, torch.fmod, torch.floor_divide]
    x = torch.tensor([0, 1, 3, 100, 127, 255, -1]).to(dtype)
    for op in ops:
        assert op(x.to("neuron"), value).cpu().tolist() == op(x, value).tolist(), op
