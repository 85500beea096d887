"""Runs workers in processes of their own, by turns, and compares their medians: what every bench of this folder shares.

A bench calls main(workers, work): `work(name, case)` runs in the worker's process and returns seconds for one iteration of a
case. Times are never printed alone, only as ratios in one run, with the spread between rounds.
"""
import argparse
import json
import os
import subprocess
import sys
import time


def median(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def time_loop(iterate, seconds=0.25, least=5):
    """Median seconds of one call of iterate(), after a warm-up of three calls."""
    for _ in range(3):
        iterate()
    times, end = [], time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < end:
        begin = time.perf_counter()
        iterate()
        times.append(time.perf_counter() - begin)
    return median(times)


def machine():
    name = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown CPU")
    return f"{name}, {os.cpu_count()} cores"


def main(script, workers, cases, work, base, rounds=3):
    """workers: name -> environment. cases: list of (title, arguments). Prints base time / worker time for each case."""
    p = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=rounds)
    p.add_argument("--workers", default=",".join(workers), help="comma-separated, of: " + ", ".join(workers))
    p.add_argument("--json", help="also write the ratios to this file")
    p.add_argument("--work", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.work:
        print(json.dumps([work(a.work, arguments) for _, arguments in cases]))
        return 0
    chosen = a.workers.split(",")
    unknown = [w for w in chosen if w not in workers]
    if unknown or base not in chosen:
        p.error(f"--workers: needs {base}, allowed {', '.join(workers)}; got {a.workers}")
    seen = {w: [] for w in chosen}
    for _ in range(a.rounds):
        for w in chosen:
            out = subprocess.run([sys.executable, script, "--work", w], env={**os.environ, **workers[w]}, stdout=subprocess.PIPE, text=True)
            if out.returncode:
                print(f"worker {w} ended with exit status {out.returncode}", file=sys.stderr)
                return 1
            seen[w].append(json.loads(out.stdout.splitlines()[-1]))
    print(f"times as ratios to {base} (higher is faster), medians of {a.rounds} rounds, spread of the worker's rounds; {machine()}")
    print(f"{'case':34s}" + "".join(f"{w:>22s}" for w in chosen if w != base))
    result = {}
    for k, (title, _) in enumerate(cases):
        reference = median([r[k] for r in seen[base]])
        line = f"{title:34s}"
        for w in chosen:
            if w == base:
                continue
            times = [r[k] for r in seen[w]]
            ratio = reference / median(times)
            result[f"{title} | {w}"] = ratio
            line += f"{ratio:13.2f} ±{(max(times) / min(times) - 1) * 100:4.0f}%  "
        print(line.rstrip())
    if a.json:
        with open(a.json, "w") as f:
            json.dump(dict(machine=machine(), ratios=result), f, indent=1)
    return 0
