"""Prints the polynomial coefficients of functions.h: minimax fits by Lawson's weighted least squares, in fp32 hex.

Usage: fit_coefficients.py [exp|expm1|log|tanh|erf|erf_tail|sin|cos ...]. Needs mpmath and numpy.
"""

import sys

import mpmath as mp
import numpy as np

mp.mp.dps = 60


def fit(target, powers, low, high, weight, points=400, rounds=60):
    """Coefficients c that make max |weight(x) * (target(x) - sum c_k x^k)| small on [low, high], and that maximum."""
    low, high = mp.mpf(low), mp.mpf(high)
    xs = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * points)) for i in range(points)]
    rows = [[weight(x) * x**k for k in powers] for x in xs]
    values = [weight(x) * target(x) for x in xs]
    lawson = np.ones(points)
    best = None
    for _ in range(rounds):
        n = len(powers)
        normal, right = mp.matrix(n, n), mp.matrix(n, 1)
        for row, value, w in zip(rows, values, map(float, lawson)):
            for p in range(n):
                right[p] += w * row[p] * value
                for q in range(n):
                    normal[p, q] += w * row[p] * row[q]
        c = mp.lu_solve(normal, right)
        errors = np.array([float(abs(v - sum(row[p] * c[p] for p in range(n)))) for row, v in zip(rows, values)])
        if best is None or errors.max() < best[0]:
            best = errors.max(), c
        lawson = lawson * errors
        lawson /= lawson.sum()
    return best


HALF_LN2 = mp.log(2) / 2 * mp.mpf("1.001")
QUARTER_PI = mp.pi / 4 * mp.mpf("1.002")
FITS = {
    "exp": (lambda r: mp.expm1(r) - r, range(2, 7), -HALF_LN2, HALF_LN2, lambda r: mp.exp(-r)),
    "expm1": (lambda r: mp.expm1(r) - r, range(2, 8), -HALF_LN2, HALF_LN2, lambda r: 1 / mp.expm1(r)),
    "log": (lambda f: mp.log1p(f) - f + f * f / 2, range(3, 11), mp.sqrt(0.5) - 1, mp.sqrt(2) - 1, lambda f: 1 / mp.log1p(f)),
    "tanh": (lambda x: mp.tanh(x) - x, range(3, 12, 2), "1e-3", "0.626", lambda x: 1 / mp.tanh(x)),
    "erf": (mp.erf, range(1, 14, 2), "1e-3", "0.93", lambda x: 1 / mp.erf(x)),
    "erf_tail": (lambda x: mp.log(mp.erfc(x)), range(0, 8), "0.92", "4.0", lambda x: mp.erfc(x) / mp.erf(x)),
    "sin": (lambda x: mp.sin(x) - x, range(3, 10, 2), "1e-3", QUARTER_PI, lambda x: 1 / mp.sin(x)),
    "cos": (lambda x: mp.cos(x) - 1 + x * x / 2, range(4, 9, 2), "1e-3", QUARTER_PI, lambda x: 1 / mp.cos(x)),
}


def main(names):
    for name in names or FITS:
        error, c = fit(*FITS[name])
        print(f"{name}: 2^{float(mp.log(error, 2)):.1f}")
        for power, value in zip(FITS[name][1], c):
            print(f"  x^{power}: {float(np.float32(float(value))).hex()}")


if __name__ == "__main__":
    main(sys.argv[1:])
