"""nax matmul against torch.mm: ratios (torch time / nax time, above 1 is faster) in one run.

The two sides are separate processes that work by turns, so that neither's idle threads disturb the other; each figure
is the median over the rounds of the ratio of neighbouring turns, with the quartiles as its spread.

  python tests/bench/bench_matmul.py --bench build/release/tests/matmul_bench
"""
import argparse
import math
import statistics
import subprocess
import sys
import time

SQUARES = [(n, n, n) for n in (256, 512, 1024, 2048)]
GOAL_SHAPES = SQUARES + [(1024, 768, 3072)]
EXTRA_SHAPES = [(16, 16, 16), (64, 64, 64), (1, 768, 3072), (3072, 768, 1), (128, 768, 768), (768, 1024, 3072)]


def serve_torch():
    import torch
    dtypes = {"f32": torch.float32, "bf16": torch.bfloat16, "f64": torch.float64, "i32": torch.int32, "i64": torch.int64}
    for line in sys.stdin:
        m, k, n, layout, dtype, threads, budget = line.split()
        m, k, n = int(m), int(k), int(n)
        torch.set_num_threads(int(threads))
        make = lambda r, c, t: (torch.randn(c, r).t() if t == "T" else torch.randn(r, c))
        a, b = make(m, k, layout[0]), make(k, n, layout[1])
        if dtypes[dtype] != torch.float32:
            scale = 1 if dtypes[dtype].is_floating_point else 100
            a, b = (a * scale).to(dtypes[dtype]), (b * scale).to(dtypes[dtype])
        out = torch.empty(m, n, dtype=dtypes[dtype])
        torch.mm(a, b, out=out)
        runs, start, budget = 0, time.perf_counter(), float(budget)
        while True:
            torch.mm(a, b, out=out)
            runs += 1
            if time.perf_counter() - start >= budget:
                break
        print((time.perf_counter() - start) / runs, flush=True)


class Side:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args} ended early")
        return float(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", help="the matmul_bench executable")
    parser.add_argument("--isa", choices=["avx2", "avx512"], help="force nax's kernels")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.03, help="of each turn")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16", "f64", "i32", "i64"])
    parser.add_argument("--extra", action="store_true", help="small, thin and vector shapes too (not in the goal)")
    parser.add_argument("--serve-torch", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve_torch:
        return serve_torch()
    if not args.bench:
        parser.error("--bench is required")
    nax = Side([args.bench] + ([args.isa] if args.isa else []))
    torch = Side([sys.executable, __file__, "--serve-torch"])
    ratios = []
    print(f"{args.dtype}, {args.threads} thread(s); ratio = torch.mm time / nax time")
    print(f"{'m x k x n':>16} layout   ratio  [quartiles]     torch us      nax us")
    for shape in GOAL_SHAPES + (EXTRA_SHAPES if args.extra else []):
        for layout in ("NN", "NT", "TN"):
            words = (*shape, layout, args.dtype, args.threads, args.seconds)
            torch_times, nax_times = [], []
            for turn in range(args.rounds):
                for side, times in ((torch, torch_times), (nax, nax_times))[:: 1 if turn % 2 else -1]:
                    times.append(side.measure(*words))
            pairs = sorted(t / x for t, x in zip(torch_times, nax_times))
            low, ratio, high = statistics.quantiles(pairs, n=4)
            if shape in GOAL_SHAPES:
                ratios.append(ratio)
            print(f"{'x'.join(map(str, shape)):>16}   {layout}   {ratio:7.3f}  [{low:.2f} {high:.2f}]"
                  f"  {statistics.median(torch_times) * 1e6:11.1f} {statistics.median(nax_times) * 1e6:11.1f}", flush=True)
    print(f"squares and 1024x768x3072: geomean {math.exp(statistics.fmean(map(math.log, ratios))):.3f}, "
          f"lowest {min(ratios):.3f}")


if __name__ == "__main__":
    main()
