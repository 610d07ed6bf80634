"""cuRAND's device generators: their numbers are those of the published algorithms, worked out here by other means."""

from __future__ import annotations

import numpy as np
import pytest

M32 = (1 << 32) - 1
SEED = 0x1234567890ABCDEF

HEAD = "#include <curand_kernel.h>\n"


def numbers(execute, state: str, seed: int, sequence: int, offset: int, n: int = 9) -> list[int]:
    """The first ``n`` numbers of a generator."""
    text = f"""{HEAD}typedef unsigned long long u64;
    __global__ void k(unsigned *out, u64 s, u64 q, u64 o) {{
      {state} state;
      curand_init(s, q, o, &state);
      for (int i = 0; i < {n}; ++i) out[i] = curand(&state);
    }}"""
    out = execute(text, {"out": np.zeros(n, np.uint32), "s": seed, "q": sequence, "o": offset})["out"]
    return [int(x) for x in out]


# ---------------------------------------------------------------------------------------------------------- XORWOW


def xorwow_matrix() -> np.ndarray:
    """One step of the five words as a 160 x 160 matrix over GF(2): column j is what bit j turns into."""
    columns = np.zeros((160, 160), np.uint8)
    for j in range(160):
        v = [(1 << (j % 32)) if j // 32 == w else 0 for w in range(5)]
        t = v[0] ^ (v[0] >> 2)
        v = [*v[1:], (v[4] ^ (v[4] << 4)) & M32 ^ t ^ (t << 1) & M32]
        columns[:, j] = [v[i // 32] >> (i % 32) & 1 for i in range(160)]
    return columns


def jumped(v: list[int], doublings: int, times: int) -> list[int]:
    """``v`` after ``times * 2**doublings`` steps, by squaring the matrix."""
    a = xorwow_matrix().astype(np.float32)
    for _ in range(doublings):
        a = a @ a % 2
    x = np.array([v[i // 32] >> (i % 32) & 1 for i in range(160)], np.float32)
    while times:
        if times & 1:
            x = a @ x % 2
        a = a @ a % 2
        times >>= 1
    return [sum(int(x[32 * w + b]) << b for b in range(32)) for w in range(5)]


@pytest.mark.parametrize("sequence, offset", [(0, 0), (1, 0), (0, 1), (6, 9)])
def test_xorwow(execute, sequence: int, offset: int) -> None:
    low = 1099087573 * ((SEED & M32) ^ 0xAAD26B49) & M32
    high = 2591861531 * ((SEED >> 32) ^ 0xF7DCEFDD) & M32
    d = 6615241 + high + low + 362437 * offset
    v = [x & M32 for x in (123456789 + low, 362436069 ^ low, 521288629 + high, 88675123 ^ high, 5783321 + low)]
    v = jumped(jumped(v, 67, sequence), 0, offset)
    want = []
    for _ in range(9):
        t = v[0] ^ (v[0] >> 2)
        v = [*v[1:], (v[4] ^ (v[4] << 4)) & M32 ^ t ^ (t << 1) & M32]
        d += 362437
        want.append((v[4] + d) & M32)
    assert numbers(execute, "curandState", SEED, sequence, offset) == want


# -------------------------------------------------------------------------------------------------------- MRG32k3a


@pytest.mark.parametrize("seed, sequence, offset", [(0, 0, 0), (SEED, 3, 12345), (7, 1 << 33, 1 << 50)])
def test_mrg32k3a(execute, seed: int, sequence: int, offset: int) -> None:
    m1, m2 = 4294967087, 4294944443
    lo, hi = ((seed & M32) ^ 0x55555555, (seed >> 32) ^ 0xAAAAAAAA) if seed else (1, 1)
    x = np.array([12345 * k % m1 for k in (lo, hi, lo)], object)
    y = np.array([12345 * k % m2 for k in (hi, lo, hi)], object)
    steps = sequence * 2**76 + offset
    x = power([[0, 1, 0], [0, 0, 1], [-810728, 1403580, 0]], steps, m1) @ x % m1
    y = power([[0, 1, 0], [0, 0, 1], [-1370589, 0, 527612]], steps, m2) @ y % m2
    want = []
    for _ in range(9):
        x = np.array([x[1], x[2], (1403580 * x[1] - 810728 * x[0]) % m1], object)
        y = np.array([y[1], y[2], (527612 * y[2] - 1370589 * y[0]) % m2], object)
        z = x[2] - y[2] if x[2] > y[2] else x[2] - y[2] + m1
        want.append(int(float(z) * 1.000000048662))
    assert numbers(execute, "curandStateMRG32k3a_t", seed, sequence, offset) == want


def power(a: list[list[int]], n: int, m: int) -> np.ndarray:
    base, out = np.array(a, object) % m, np.eye(3, dtype=int).astype(object)
    while n:
        out = out @ base % m if n & 1 else out
        base = base @ base % m
        n >>= 1
    return out


# ---------------------------------------------------------------------------------------------------- Philox4x32-10


def philox(counter: int, key: int) -> list[int]:
    """Ten rounds of the bijection of Salmon et al. (2011), on 128-bit counters."""
    c = [counter >> 32 * i & M32 for i in range(4)]
    k = [key & M32, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & M32, a >> 32 ^ c[3] ^ k[1], a & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


def test_philox_reference() -> None:
    """The known answers published with Random123 for counter and key of all zeros and all ones."""
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox((1 << 128) - 1, (1 << 64) - 1) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


@pytest.mark.parametrize("sequence, offset", [(0, 0), (3, 1), (1 << 40, 6), (2, (1 << 34) - 3), (9, 2**64 - 1)])
def test_philox(execute, sequence: int, offset: int) -> None:
    place = [(sequence << 66) + offset + i for i in range(9)]
    want = [philox(p // 4, SEED)[p % 4] for p in place]
    assert numbers(execute, "curandStatePhilox4_32_10_t", SEED, sequence, offset) == want


def test_philox_in_fours(execute) -> None:
    text = f"""{HEAD}__global__ void k(uint4 *out) {{
      curandStatePhilox4_32_10_t s;
      for (int i = 0; i < 4; ++i) {{
        curand_init({SEED}ull, 1, i, &s);
        out[2 * i] = curand4(&s);
        out[2 * i + 1] = curand4(&s);
      }}
    }}"""
    got = execute(text, {"out": np.zeros((8, 4), np.uint32)})["out"].reshape(4, 8)
    for i in range(4):
        assert list(got[i]) == [philox((1 << 64) + p // 4, SEED)[p % 4] for p in range(i, i + 8)]


# ------------------------------------------------------------------------------------------------- Sobol' sequences


def test_sobol(execute) -> None:
    """With the identity as direction vectors, number i is the Gray code of i, bit-reversed as the vectors are."""
    text = f"""{HEAD}__global__ void k(unsigned *out, curandDirectionVectors32_t *v, curandStateSobol32 *s) {{
      curand_init(v[1], 5, s);
      for (int i = 0; i < 8; ++i) out[i] = curand(s);
    }}"""
    vectors = np.array([[0] * 32, [1 << (31 - k) for k in range(32)]], np.uint32)
    state = np.zeros(35, np.uint32)
    got = execute(text, {"out": np.zeros(8, np.uint32), "v": vectors, "s": state})["out"]
    reverse = lambda x: int(f"{x:032b}"[::-1], 2)  # noqa: E731
    assert [int(x) for x in got] == [reverse(i ^ (i >> 1)) for i in range(5, 13)]


# --------------------------------------------------------------------------------------------------- distributions


@pytest.mark.parametrize("state", ["curandState", "curandStatePhilox4_32_10_t", "curandStateMRG32k3a"])
def test_distributions(execute, state: str) -> None:
    """Numbers of (0, 1] and of a normal distribution: range, mean, deviation, and the second one kept."""
    text = f"""{HEAD}__global__ void k(float *u, double *d, float *z, double *e) {{
      {state} s;
      curand_init({SEED}ull, threadIdx.x, 0, &s);
      for (int i = 0; i < 64; ++i) {{
        u[64 * threadIdx.x + i] = curand_uniform(&s);
        d[64 * threadIdx.x + i] = curand_uniform_double(&s);
        z[64 * threadIdx.x + i] = curand_normal(&s);
        e[64 * threadIdx.x + i] = log(curand_log_normal_double(&s, 1.0, 2.0));
      }}
    }}"""
    args = {
        n: np.zeros(2048, t) for n, t in (("u", np.float32), ("d", np.float64), ("z", np.float32), ("e", np.float64))
    }
    got = execute(text, args, threads=32)
    for name in "ud":
        x = got[name].astype(float)
        assert x.min() > 0 and x.max() <= 1 and abs(x.mean() - 0.5) < 0.03 and abs(x.std() - 12**-0.5) < 0.02
        assert len(np.unique(x)) > 2040
    for name, mean, deviation in (("z", 0, 1), ("e", 1, 2)):
        x = (got[name].astype(float) - mean) / deviation
        assert abs(x.mean()) < 0.1 and abs(x.std() - 1) < 0.08 and abs((np.abs(x) < 1).mean() - 0.683) < 0.05


def test_what_is_not_built_is_refused(refuses) -> None:
    error = refuses(f"{HEAD}__global__ void k(unsigned *o, curandStateMtgp32 *s) {{ o[0] = 1; }}", "E-SEMA-TYPE")
    assert "MTGP32" in error.hint
    # A low-discrepancy sequence has no Box and Muller transform: cuRAND inverts the distribution there.
    refuses(f"{HEAD}__global__ void k(float *o, curandStateSobol32 *s) {{ o[0] = curand_normal(s); }}", "E-SEMA-MEMBER")
