"""nax matmul against torch.mm and torch.bmm: ratios (torch time / nax time, above 1 is faster) in one run.

The two sides are separate processes that work by turns, so that neither's idle threads disturb the other. A turn gives
the time of a call in its best stretch of about 50 us; each figure is the ratio of the best turns, with the quartiles of
the ratios of neighbouring turns as its spread. Both sides write results of the operands' dtype into memory they are given.

  python tests/bench/bench_matmul.py --bench build/release/tests/matmul_bench --shapes small,wide --dtype f32,bf16 --threads 1,2
"""
import argparse
import math
import statistics
import subprocess
import sys
import time


def linear_shapes(rows, width, vocab=512):
    """The matmuls of a transformer's linear layers: forward x @ W^T, input gradient g @ W, weight gradient g^T @ x."""
    shapes = []
    for inner, outer in ((width, width), (width, 4 * width), (4 * width, width), (width, vocab)):
        shapes += [(1, rows, inner, outer, "NT"), (1, rows, outer, inner, "NN"), (1, outer, rows, inner, "TN")]
    return shapes


def attention_shapes(batch, length, head):
    """scores = q @ k^T, out = p @ v, and their gradients."""
    return [(batch, length, head, length, "NT"), (batch, length, length, head, "NN"), (batch, length, length, head, "TN")]


def all_layouts(*shapes):
    return [(1, *shape, layout) for shape in shapes for layout in ("NN", "NT", "TN", "TT")]


SETS = {
    "squares": all_layouts(*((n, n, n) for n in (256, 512, 1024, 2048)), (1024, 768, 3072)),
    "tiny": linear_shapes(16, 64),
    "small": linear_shapes(8 * 128, 256),
    "wide": linear_shapes(4 * 128, 768),
    "bmm": attention_shapes(8, 16, 8) + attention_shapes(64, 128, 32) + attention_shapes(48, 128, 64),
    "thin": all_layouts((16, 16, 16), (64, 64, 64), (1, 768, 3072), (4, 768, 768), (3072, 768, 1), (128, 768, 768)),
}


def serve_torch():
    import torch
    dtypes = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64,
              "i32": torch.int32, "i64": torch.int64}
    clock = time.perf_counter
    for line in sys.stdin:
        batch, m, k, n, layout, dtype, threads, budget = line.split()
        batch, m, k, n = int(batch), int(m), int(k), int(n)
        torch.set_num_threads(int(threads))

        def make(rows, cols, transposed):
            x = torch.randn(batch, cols, rows).transpose(1, 2) if transposed == "T" else torch.randn(batch, rows, cols)
            x = (x if dtypes[dtype].is_floating_point else x * 100).to(dtypes[dtype])
            return x[0] if batch == 1 else x

        a, b = make(m, k, layout[0]), make(k, n, layout[1])
        multiply = torch.mm if batch == 1 else torch.bmm
        out = multiply(a, b)
        start = clock()
        multiply(a, b, out=out)
        calls = range(max(1, min(1000, int(50e-6 / (clock() - start)))))
        best, begin = math.inf, clock()
        while clock() - begin < float(budget):
            start = clock()
            for _ in calls:
                multiply(a, b, out=out)
            best = min(best, (clock() - start) / len(calls))
        print(best, flush=True)


class Side:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args} ended early")
        return float(line)


def compare(torch, nax, shapes, dtype, threads, rounds, seconds):
    """Prints a line a shape and returns the ratios."""
    ratios = []
    for shape in shapes:
        words = (*shape, dtype, threads, seconds)
        torch_times, nax_times = [], []
        for turn in range(rounds):
            for side, times in ((torch, torch_times), (nax, nax_times))[:: 1 if turn % 2 else -1]:
                times.append(side.measure(*words))
        low, _, high = statistics.quantiles((t / x for t, x in zip(torch_times, nax_times)), n=4)
        ratios.append(min(torch_times) / min(nax_times))
        batch, *sizes, layout = shape
        name = "x".join(map(str, sizes if batch == 1 else (batch, *sizes)))
        print(f"{name:>18}   {layout}   {ratios[-1]:7.3f}  [{low:.2f} {high:.2f}]"
              f"  {min(torch_times) * 1e6:11.1f} {min(nax_times) * 1e6:11.1f}", flush=True)
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", help="the matmul_bench executable")
    parser.add_argument("--isa", choices=["avx2", "avx512", "amx"], help="nax's host ISA")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.03, help="of each turn")
    parser.add_argument("--threads", default="1", help="comma-separated")
    parser.add_argument("--dtype", default="f32", help="comma-separated, of f32, bf16, f16, f64, i32, i64")
    parser.add_argument("--shapes", default="squares", help="comma-separated, of " + ", ".join(SETS))
    parser.add_argument("--serve-torch", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve_torch:
        return serve_torch()
    if not args.bench:
        parser.error("--bench is required")
    unknown = [s for s in args.shapes.split(",") if s not in SETS]
    if unknown:
        parser.error(f"--shapes: unknown {', '.join(unknown)}; allowed {', '.join(SETS)}")
    nax = Side([args.bench] + ([args.isa] if args.isa else []))
    torch = Side([sys.executable, __file__, "--serve-torch"])
    print("ratio = torch time / nax time, [quartiles of the turns]")
    summary = []
    for dtype in args.dtype.split(","):
        for threads in map(int, args.threads.split(",")):
            for name in args.shapes.split(","):
                print(f"{name}, {dtype}, {threads} thread(s)\n{'m x k x n':>18} layout   ratio  [quartiles]     torch us      nax us")
                ratios = compare(torch, nax, SETS[name], dtype, threads, args.rounds, args.seconds)
                summary.append(f"{name:>8} {dtype:>5} {threads} thread(s): geomean {math.exp(statistics.fmean(map(math.log, ratios))):.3f}, "
                               f"lowest {min(ratios):.3f}")
    print("\n".join(summary))


if __name__ == "__main__":
    main()
