"""Views, aliases, in-place writes and copies: the same program on the CPU is the oracle, and bits must agree where no
arithmetic rounds."""

import pytest
import torch


def same(program):
    """Runs a program that takes a device and returns tensors on both devices."""
    want, got = program("cpu"), program("neuron")
    assert len(want) == len(got)
    for w, g in zip(want, got):
        assert g.shape == w.shape and g.stride() == w.stride() and g.dtype == w.dtype
        assert torch.equal(g.cpu(), w), (g, w)


def base(device, *shape):
    return torch.arange(1.0, 1.0 + torch.Size(shape).numel(), device=device).view(*shape)


def test_writes_through_views_reach_the_base(mode):
    def program(device):
        x = base(device, 4, 6)
        x[1:].mul_(2)
        x[:, ::2].add_(1)
        x.t()[3].zero_()
        x.view(-1)[5] = -7
        x[0, 1:3] = torch.tensor([8.0, 9.0])
        y = x.unfold(1, 2, 2)
        y[..., 0] += 0.5
        return [x, y, x.diagonal(), x.flip(0), x.roll(1, 1), x.narrow(1, 2, 3)]

    same(program)


def test_reads_before_a_write_keep_their_values(mode):
    def program(device):
        x = base(device, 5)
        y = x * 2
        z = x[1:] + x[:-1]
        x.fill_(0)
        return [x, y, z]

    same(program)


def test_overlapping_copy_within_one_storage(mode):
    def program(device):
        x = base(device, 8)
        x[1:] = x[:-1].clone()
        y = base(device, 3, 3)
        y.copy_(y.t().clone())
        return [x, y]

    same(program)


@pytest.mark.parametrize("write", ["expanded", "partial"])
def test_overlaps_that_the_cpu_refuses(write):
    def program(device):
        x = torch.zeros(3, device=device)
        if write == "expanded":
            x[:1].expand(3).add_(1)
        else:
            x[1:].add_(x[:-1])

    with pytest.raises(RuntimeError) as cpu:
        program("cpu")
    with pytest.raises(RuntimeError) as neuron:
        program("neuron")
    assert str(neuron.value) == str(cpu.value)


def test_copies_convert_broadcast_and_stride(mode):
    def program(device):
        x = torch.zeros(3, 4, device=device)
        x.copy_(torch.arange(4))  # from the host, broadcast and converted
        x[:, 1] = torch.tensor(5, dtype=torch.int32)
        h = x.to(torch.bfloat16)
        d = torch.empty(4, 3, device=device).t()
        d.copy_(h)
        return [x, h, d, x.long(), x.bool(), (x + 0.5).to(torch.int8), x.double()]

    same(program)


def test_host_source_may_change_after_the_copy(mode):
    host = torch.ones(1000)
    x = host.to("neuron", non_blocking=True)
    host.fill_(7)
    assert x.sum().item() == 1000


def test_resize_and_set(mode):
    def program(device):
        x = base(device, 6)
        y = x[2:]
        x.resize_(2, 5)[0, :5].add_(1)
        x.view(-1)[6:] = 0
        z = torch.empty(0, device=device)
        z.set_(y)
        z.add_(1)
        return [x, y, z]

    same(program)


def test_storage_resize_keeps_contents():
    x = base("neuron", 4)
    storage = x.untyped_storage()
    storage.resize_(32)
    assert storage.nbytes() == 32 and x.tolist() == [1, 2, 3, 4]
    storage.resize_(0)
    assert storage.nbytes() == 0


def test_complex_views_and_lazy_conjugates():
    def program(device):
        x = torch.view_as_complex(base(device, 3, 2))
        y = x.conj()
        z = torch.empty(3, dtype=torch.complex64, device=device)
        z.copy_(y)
        return [torch.view_as_real(z), y.imag.clone(), y.resolve_conj().real.clone()]

    same(program)


def test_out_arguments_are_resized_and_kept(mode):
    def program(device):
        x = base(device, 2, 3)
        empty = torch.empty(0, device=device)
        torch.add(x, 1, out=empty)
        values, indices = torch.empty(0, device=device), torch.empty(0, dtype=torch.long, device=device)
        torch.sort(x, descending=True, out=(values, indices))  # a fallback
        strided = torch.empty(3, 2, device=device).t()
        where = strided.data_ptr()
        torch.mul(x, 2, out=strided)
        assert strided.data_ptr() == where
        return [empty, values, indices, strided]

    same(program)


def test_results_that_alias_inputs(mode):
    x = base("neuron", 4)
    assert x.contiguous() is x and x.detach().data_ptr() == x.data_ptr()
    y = x.expand(3, 4)
    x.add_(1)
    assert y[2].tolist() == [2, 3, 4, 5]
    buffer = torch.zeros(3, device="neuron")
    assert torch.abs(-buffer, out=buffer) is buffer


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (3, 4)])
def test_a_matrix_times_its_own_transpose(shape, mode):
    x = torch.arange(1.0, 1.0 + shape[0] * shape[1]).view(shape)
    d = x.to("neuron")
    assert torch.equal((d @ d.t()).cpu(), x @ x.t()) and torch.equal((d.t() @ d).cpu(), x.t() @ x)
