"""Autograd, modules, optimizers, random numbers, saving and printing."""

import copy
import io
import pickle

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.norm = nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 11)

    def forward(self, ids):
        return self.down(F.gelu(self.up(self.norm(self.embed(ids)))))


def losses(device, optimizer, steps=4):
    torch.manual_seed(0)
    net = Net().to(device)
    opt = optimizer(net.parameters())
    ids = (torch.arange(40) * 7 % 11).view(4, 10).to(device)
    out = []
    for _ in range(steps):
        loss = F.cross_entropy(net(ids).flatten(0, 1), ids.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        out.append(loss.item())
    return out


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: torch.optim.AdamW(p, 1e-2),
        lambda p: torch.optim.AdamW(p, 1e-2, fused=True),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.RMSprop(p, 1e-2),
        lambda p: torch.optim.Adagrad(p, 1e-2, foreach=False),
    ],
)
def test_training_follows_the_cpu(optimizer, mode):
    torch.testing.assert_close(losses("neuron", optimizer), losses("cpu", optimizer), rtol=2e-4, atol=2e-4)


def test_eager_and_adaptive_train_to_the_same_bits():
    eager = losses("neuron", lambda p: torch.optim.AdamW(p, 1e-2))
    torch.neuron.set_mode("adaptive")
    assert losses("neuron", lambda p: torch.optim.AdamW(p, 1e-2)) == eager


def test_a_changing_learning_rate_compiles_nothing_new():
    torch.neuron.set_mode("adaptive")
    net = nn.Linear(8, 8).to("neuron")
    opt = torch.optim.AdamW(net.parameters(), 1e-2)
    x = torch.randn(4, 8).to("neuron")
    compiled = []
    for step in range(8):
        for group in opt.param_groups:
            group["lr"] = 1e-2 / (step + 1)
        net(x).square().mean().backward()
        opt.step()
        opt.zero_grad()
        torch.neuron.synchronize()
        compiled.append(torch.neuron.stats()["programs_compiled"])
    assert compiled[3:] == [compiled[3]] * 5, compiled


def test_gradcheck_in_double():
    x = torch.randn(3, 4, dtype=torch.double, device="neuron", requires_grad=True)
    w = torch.randn(4, 2, dtype=torch.double, device="neuron", requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: torch.tanh(x @ w).softmax(-1), (x, w))


def test_attention_and_convolution_backward():
    def program(device):
        torch.manual_seed(0)
        q = torch.randn(1, 2, 5, 4).to(device).requires_grad_()
        y = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        c = nn.Conv1d(2, 3, 3).to(device)
        (c(y.flatten(2)).square().sum() + y.sum()).backward()
        return [q.grad, c.weight.grad, c.bias.grad]

    for got, want in zip(program("neuron"), program("cpu")):
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)


def test_autocast():
    with torch.autocast("neuron", dtype=torch.bfloat16):
        y = nn.Linear(4, 4).to("neuron")(torch.ones(2, 4, device="neuron"))
        z = F.softmax(y, -1)
    assert y.dtype == torch.bfloat16 and z.dtype == torch.float32


def test_seeds_repeat_and_states_restore(mode):
    torch.manual_seed(7)
    a = [torch.randn(5, device="neuron"), F.dropout(torch.ones(64, device="neuron")), torch.rand(3, device="neuron")]
    state = torch.neuron.get_rng_state()
    assert state.numel() == 16 and state.dtype == torch.uint8
    after = torch.randn(4, device="neuron")
    torch.manual_seed(7)
    b = [torch.randn(5, device="neuron"), F.dropout(torch.ones(64, device="neuron")), torch.rand(3, device="neuron")]
    assert all(torch.equal(x.cpu(), y.cpu()) for x, y in zip(a, b))
    torch.neuron.set_rng_state(state)
    assert torch.equal(torch.randn(4, device="neuron").cpu(), after.cpu())
    assert not torch.equal(a[0].cpu(), torch.randn(5, device="neuron").cpu())


def test_generators_are_their_own():
    g = torch.Generator(device="neuron").manual_seed(3)
    h = torch.Generator(device="neuron").manual_seed(3)
    before = torch.neuron.get_rng_state()
    assert torch.equal(
        torch.rand(9, generator=g, device="neuron").cpu(), torch.rand(9, generator=h, device="neuron").cpu()
    )
    assert torch.equal(torch.neuron.get_rng_state(), before)
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(2, generator=torch.Generator(), device="neuron")


def test_device_randomness_leaves_the_cpus_alone():
    torch.manual_seed(1)
    want = torch.rand(4)
    torch.manual_seed(1)
    torch.randn(100, device="neuron")
    F.dropout(torch.ones(100, device="neuron"))
    assert torch.equal(torch.rand(4), want)


def test_state_dict_save_load_copy_pickle(mode):
    net = Net().to("neuron")
    other = Net().to("neuron")
    other.load_state_dict(copy.deepcopy(net.state_dict()))
    file = io.BytesIO()
    torch.save({"net": net.state_dict(), "x": torch.arange(3, device="neuron")}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    assert loaded["x"].device.type == "neuron" and loaded["x"].tolist() == [0, 1, 2]
    file.seek(0)
    assert torch.load(file, map_location="cpu")["x"].device.type == "cpu"
    for name, value in net.state_dict().items():
        assert torch.equal(value.cpu(), other.state_dict()[name].cpu())
        assert torch.equal(value.cpu(), loaded["net"][name].cpu())
    twice = pickle.loads(pickle.dumps(net.up.weight))
    assert twice.is_neuron and torch.equal(twice.cpu(), net.up.weight.cpu())
    weight = net.up.weight.detach()
    pair = copy.deepcopy([weight, weight.view(-1)])
    assert pair[0].data_ptr() == pair[1].data_ptr()


def test_printing_is_the_cpus_with_the_device():
    x = torch.linspace(-1, 1, 6).view(2, 3)
    torch.neuron.reset_stats()
    text = repr(x.to("neuron"))
    assert text.replace(", device='neuron:0'", "") == repr(x) and "device='neuron:0'" in text
    assert torch.neuron.stats()["launches"] == 0
    assert "Parameter containing" in repr(nn.Linear(2, 2).to("neuron").weight)
    assert f"{torch.tensor(1.5, device='neuron'):.1f}" == "1.5"


def test_dlpack_names_the_device():
    assert torch.ones(1, device="neuron").__dlpack_device__()[0].name == "kDLExtDev"


def test_multiprocessing_sends_values():
    """The reducer that queues use: a device tensor travels as a host tensor in shared memory."""
    from multiprocessing.reduction import ForkingPickler

    x = torch.nn.Parameter(torch.arange(4.0, device="neuron"))
    y = pickle.loads(ForkingPickler.dumps(x))
    assert isinstance(y, torch.nn.Parameter) and y.is_neuron and y.tolist() == [0, 1, 2, 3]
