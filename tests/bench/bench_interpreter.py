"""Engine programs on the interpreter against the same ops of CPU eager: ratios (torch time / nax time, above 1 is faster).

The two sides are separate processes that work by turns; each figure is the median over the rounds of the ratio of
neighbouring turns, with the quartiles as its spread. Launches only: no recording, no lowering.

  python tests/bench/bench_interpreter.py --bench build/release/tests/interpreter_bench
"""
import argparse
import statistics
import subprocess
import sys
import time

CASES = [("chain", 1, n) for n in (1024, 16 << 10, 256 << 10, 4 << 20)]
CASES += [("softmax", 1024, 1024), ("softmax", 4096, 64), ("rmsnorm", 1024, 1024), ("layernorm", 1024, 1024),
          ("layernorm", 256, 128), ("colsum", 4096, 1024), ("colsum", 16384, 64), ("transpose", 2048, 2048), ("transpose", 300, 200),
          ("bias", 4096, 33), ("bias", 1024, 1024)]


def torch_case(name, rows, columns):
    import torch

    x, y = torch.randn(rows, columns), torch.randn(rows, columns)
    row = y[0].clone()

    def chain():
        a = x * y
        b = a + x
        c = b - 0.5
        d = c.relu()
        e = d * 1.5
        f = e + y
        g = f.abs()
        return g * x

    def rmsnorm():
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * row

    source = torch.randn(columns, rows)
    return dict(chain=chain, softmax=lambda: torch.softmax(x, -1), rmsnorm=rmsnorm,
                layernorm=lambda: torch.nn.functional.layer_norm(x, (columns,), row, row), colsum=lambda: x.sum(0),
                transpose=lambda: source.t().contiguous(), bias=lambda: x + row)[name]


def serve_torch():
    import torch

    for line in sys.stdin:
        name, rows, columns, threads, budget = line.split()
        torch.set_num_threads(int(threads))
        run = torch_case(name, int(rows), int(columns))
        times, end = [], time.perf_counter() + float(budget)
        run()
        while len(times) < 5 or time.perf_counter() < end:
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
        print(statistics.median(times), min(times), flush=True)


class Side:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args} ended early")
        return tuple(map(float, line.split()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", help="the interpreter_bench executable")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each turn")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--least", action="store_true", help="least times instead of medians: for a machine that is busy otherwise")
    parser.add_argument("--only", help="one case by name")
    parser.add_argument("--serve-torch", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve_torch:
        return serve_torch()
    if not args.bench:
        parser.error("--bench is required")
    nax, torch = Side([args.bench]), Side([sys.executable, __file__, "--serve-torch"])
    print("ratio = CPU eager time / interpreter time")
    print(f"{'case':>10} {'shape':>12} threads   ratio  [quartiles]     torch us      nax us")
    for name, rows, columns in CASES:
        if args.only and name != args.only:
            continue
        for threads in args.threads.split(","):
            words = (name, rows, columns, threads, args.seconds)
            torch_times, nax_times = [], []
            for turn in range(args.rounds):
                for side, times in ((torch, torch_times), (nax, nax_times))[:: 1 if turn % 2 else -1]:
                    times.append(side.measure(*words)[args.least])
            pairs = sorted(t / x for t, x in zip(torch_times, nax_times))
            low, ratio, high = statistics.quantiles(pairs, n=4)
            if args.least:
                ratio = min(torch_times) / min(nax_times)
            print(f"{name:>10} {f'{rows}x{columns}':>12} {threads:>7} {ratio:7.2f}  [{low:.2f} {high:.2f}]"
                  f"  {statistics.median(torch_times) * 1e6:11.1f} {statistics.median(nax_times) * 1e6:11.1f}", flush=True)


if __name__ == "__main__":
    main()
