"""Ops with indices against the CPU: values, dtypes, strides, negative and repeated indices; nothing falls back."""
import pytest
import torch

from against_cpu import agree, no_fallback


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("padding", [None, 0, 3])
@pytest.mark.parametrize("scale", [False, True])
def test_embedding_trains_on_sliced_ids(mode, dtype, padding, scale):
    ids = torch.randint(0, 7, (4, 9), generator=torch.Generator().manual_seed(1))
    weight = torch.randn(7, 5, generator=torch.Generator().manual_seed(2)).to(dtype)

    def run(device):
        w = weight.to(device).requires_grad_()
        batch = ids.to(device)
        inputs, targets = batch[:, :-1], batch[:, 1:]
        x = torch.nn.functional.embedding(inputs, w, padding_idx=padding, scale_grad_by_freq=scale)
        # A gradient of other strides than the embedding's own.
        loss = (x.transpose(0, 1) * targets.t().unsqueeze(-1).to(dtype)).float().sum()
        loss.backward()
        return x.detach(), w.grad

    with no_fallback():
        got = run("neuron")
        got = [t.cpu() for t in got]
    for g, want in zip(got, run("cpu")):
        agree(g, want)


def test_embedding_gradient_that_is_expanded(mode):
    ids = torch.tensor([[0, 1, 1], [2, 0, 1]])

    def run(device):
        w = torch.ones(4, 3, device=device, requires_grad=True)
        torch.nn.functional.embedding(ids.to(device)[:, ::2], w).sum().backward()
        return w.grad

    with no_fallback():
        got = run("neuron").cpu()
    agree(got, run("cpu"))


def test_cross_entropy_of_sliced_targets(mode):
    ids = torch.randint(0, 11, (4, 9), generator=torch.Generator().manual_seed(1))
    logits = torch.randn(4, 9, 11, generator=torch.Generator().manual_seed(2))

    def run(device):
        x = logits.to(device).requires_grad_()
        y = ids.to(device)
        loss = torch.nn.functional.cross_entropy(x[:, :-1].flatten(0, 1), y[:, 1:].flatten())
        flat = torch.nn.functional.nll_loss(x[:, 0].log_softmax(-1), y[:, 3])
        (loss + flat).backward()
        return loss.detach(), x.grad

    with no_fallback():
        got = [t.cpu() for t in run("neuron")]
    for g, want in zip(got, run("cpu")):
        agree(g, want)
