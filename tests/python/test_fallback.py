"""Ops without a lowering run on the CPU, at once and counted."""

import pytest
import torch
import torch.nn.functional as F


def test_counted_by_name():
    x = torch.tensor([3.0, 1.0, 2.0], device="neuron")
    assert torch.neuron.fallback_ops() == {}
    assert x.sort()[0].tolist() == [1, 2, 3]
    assert torch.neuron.fallback_ops() == {"aten::sort.values_stable": 1}
    assert torch.neuron.stats()["fallback_launches"] == 1
    torch.neuron.reset_stats()
    assert torch.neuron.fallback_ops() == {}


def test_sees_pending_work_and_feeds_it(mode):
    x = torch.arange(6.0, device="neuron")
    y = (x * 2 + 1).view(2, 3)
    values, _ = y.sort(descending=True)
    assert (values - 1).tolist() == [[4, 2, 0], [10, 8, 6]]


def test_in_place_and_shared_storage(mode):
    def program(device):
        x = torch.arange(12.0, device=device)
        x[2:8].cumprod_(0)  # in place through a view
        x.view(3, 4)[1].put_(torch.tensor([0], device=device), torch.tensor([-1.0], device=device))
        return x

    assert torch.equal(program("neuron").cpu(), program("cpu"))


@pytest.mark.parametrize(
    "run",
    [
        lambda x: F.conv2d(x.view(1, 1, 4, 4), torch.ones(1, 1, 3, 3, device=x.device)),
        lambda x: torch.linalg.svdvals(x.view(4, 4)),
        lambda x: torch.fft.rfft(x).abs(),
        lambda x: torch.split(x.view(4, 4).topk(2).values, 2)[1],
        lambda x: torch.stack(torch.linalg.lu(x.view(4, 4) + 3 * torch.eye(4, device=x.device))[1:]),
        lambda x: torch.unique(x.round()),
        lambda x: F.group_norm(x.view(1, 4, 4), 2),
        lambda x: x.double().logcumsumexp(0),
        lambda x: x.to(torch.complex64) * 2j,
        lambda x: torch.nn.LSTMCell(16, 3).to(x.device)(x.view(1, 16))[0],
        lambda x: x.view(1, 1, 1, 1, 1, 2, 2, 4) + 1,  # more dimensions than an engine program has
        lambda x: torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).to(x.device).eval()(x.view(1, 4, 4)),
    ],
)
def test_same_as_cpu(run):
    x = torch.linspace(-1, 1, 16)
    with torch.no_grad():
        torch.manual_seed(1)
        want = run(x)
        torch.manual_seed(1)
        got = run(x.to("neuron"))
    torch.testing.assert_close(got.cpu(), want)


def test_mixed_devices_raise_as_between_other_devices():
    for run in (torch.add, torch.matmul, torch.minimum, torch.kron):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            run(torch.ones(2, 2, device="neuron"), torch.ones(2, 2))
    x = torch.ones(2, device="neuron")
    assert (x + torch.tensor(2.0)).tolist() == [3, 3]  # a 0-dim host tensor is a number
    assert x[torch.tensor([1, 0])].tolist() == [1, 1]  # indices may stay on the host


def test_forbidden_and_announced(run_python):
    source = """
        import torch
        x = torch.ones(3, device="neuron") + 1
        try:
            x.sort(); x.sort()
            print("ran")
        except NotImplementedError as e:
            print(e)
        """
    forbidden = run_python(source, NAX_FALLBACK="error")
    assert "aten::sort" in forbidden.out and "NAX_FALLBACK=error" in forbidden.out, forbidden.err
    announced = run_python(source, NAX_FALLBACK="warn")
    assert announced.out.strip() == "ran" and announced.err.count("aten::sort") == 1, announced.err


def test_sparse_results_are_refused_clearly():
    with pytest.raises(NotImplementedError, match="strided"):
        torch.ones(2, 2, device="neuron").to_sparse()


def test_thread_count_of_the_caller_is_untouched():
    before = torch.get_num_threads()
    torch.ones(100, 100, device="neuron").sort()
    assert torch.get_num_threads() == before
