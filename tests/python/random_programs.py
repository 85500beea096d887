"""Random tensor programs for test_bit_equality.py: run as a script it writes the results of a range of seeds to a file.

A program is a list of steps drawn from a seed; a step reads live tensors and makes, overwrites or drops some. Steps that are
not allowed for a dtype raise the same error everywhere, and the error's type is part of the result.
"""
import random
import sys

import torch

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
SHAPES = ((5,), (1, 1), (7, 3), (2, 3, 4), (33, 65), (4, 1, 129), (1, 2049), (260, 31), (3, 70001))


class Program:
    def __init__(self, seed, device):
        self.draw = random.Random(seed)
        self.values = torch.Generator().manual_seed(seed)
        self.device = device
        self.shape = self.draw.choice(SHAPES)
        self.dtype = self.draw.choice(FLOATS)
        self.live = [self.fresh(self.dtype) for _ in range(3)]
        self.views = []

    def fresh(self, dtype):
        return (torch.randn(self.shape, generator=self.values, dtype=torch.float64) * 2).to(dtype).to(self.device)

    def pick(self):
        return self.draw.choice(self.live[-8:])

    def unary(self):
        name = self.draw.choice("exp tanh sigmoid sqrt rsqrt log neg abs relu reciprocal sin cos erf floor square sign".split())
        return getattr(torch, name)(self.pick())

    def binary(self):
        name = self.draw.choice("add sub mul div maximum minimum atan2 pow".split())
        return getattr(torch, name)(self.pick(), self.pick())

    def scalar(self):
        x, s = self.pick(), self.draw.choice((0.5, -1.25, 3, 0, 2.0))
        return self.draw.choice((lambda: x + s, lambda: x * s, lambda: s - x, lambda: x.clamp(-abs(s), 2), lambda: x ** 3))()

    def broadcast(self):
        x = self.pick()
        row = x.select(0, self.draw.randrange(x.shape[0]))
        return x + row if self.draw.random() < 0.5 else x * x.select(-1, 0).unsqueeze(-1)

    def choose(self):
        return torch.where(self.pick() > self.pick(), self.pick(), self.pick())

    def reduce(self):
        x, dim, name = self.pick(), self.draw.randrange(len(self.shape)), self.draw.choice(("sum", "mean", "amax", "amin"))
        return x - getattr(x, name)(dim, keepdim=True)

    def row(self):
        x, kind = self.pick(), self.draw.randrange(4)
        if kind == 0:
            return torch.softmax(x, -1)
        if kind == 1:
            return torch.log_softmax(x, 0)
        if kind == 2:
            return torch.nn.functional.layer_norm(x, x.shape[-1:])
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)

    def matmul(self):
        x = self.pick().flatten(0, -2) if len(self.shape) > 1 else self.pick().unsqueeze(0)
        if x.shape[-1] > 4096:
            x = x[:, :300]
        gram = torch.relu(x @ x.t() * 0.1) + 0.5
        return self.pick() + gram.sum()

    def integers(self):
        x = self.pick().clamp(-50, 50).to(self.draw.choice((torch.int64, torch.int32, torch.int8)))
        y = (x * 3 - 7) % 11 + (x // 4)
        return (y > 2).to(self.dtype) + y.to(self.dtype)

    def cast(self):
        return self.pick().to(self.draw.choice(FLOATS)).mul(1.001).to(self.dtype)

    def layout(self):
        x, kind = self.pick(), self.draw.randrange(4)
        if kind == 0:
            return x.transpose(0, -1).contiguous().transpose(0, -1)
        if kind == 1:
            return torch.cat([x.narrow(0, 1, x.shape[0] - 1), x.narrow(0, 0, 1)], 0)
        if kind == 2:
            return x.flip(self.draw.randrange(len(self.shape)))
        return torch.cumsum(x, self.draw.randrange(len(self.shape)))

    def in_place(self):
        x, kind = self.pick(), self.draw.randrange(5)
        if kind == 0:
            x.mul_(0.5).add_(self.pick(), alpha=-0.25)
        elif kind == 1:
            x.narrow(0, 0, (x.shape[0] + 1) // 2).neg_()
        elif kind == 2:
            x[..., ::2] = x.select(-1, 0).unsqueeze(-1)
        elif kind == 3:
            x.transpose(0, -1).copy_(self.pick().transpose(0, -1))
        else:
            x.view(-1)[self.draw.randrange(x.numel())] = 1.5
        return x + 1

    def keep_view(self):
        x = self.pick()
        self.views.append(x.narrow(0, self.draw.randrange(x.shape[0]), 1))
        return x * 0.75

    def read(self):
        x = self.pick()
        total = float(x.double().nan_to_num().sum())
        return x + (0.5 if total > 0 else -0.5)

    def steps(self):
        return (self.unary, self.unary, self.binary, self.binary, self.scalar, self.broadcast, self.choose, self.reduce, self.row,
                 self.matmul, self.integers, self.cast, self.layout, self.in_place, self.in_place, self.keep_view, self.read)

    def run(self):
        errors = []
        for _ in range(self.draw.randint(6, 40)):
            step = self.draw.choice(self.steps())
            try:
                self.live.append(step())
            except (RuntimeError, IndexError) as error:
                errors.append(f"{step.__name__}: {type(error).__name__}")
            if self.draw.random() < 0.2 and len(self.live) > 4:
                del self.live[self.draw.randrange(len(self.live))]
        return [t.cpu() for t in self.live + self.views] + errors


if __name__ == "__main__":
    first, last, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(2)
    results = {seed: Program(seed, "neuron").run() for seed in range(first, last)}
    torch.save(dict(results=results, stats=torch.neuron.stats(), fallbacks=dict(torch.neuron.fallback_ops())), path)
