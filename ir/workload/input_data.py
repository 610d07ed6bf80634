"""Input data of a workload: deterministic by seed, in the dtypes the device sees.

Large arrays repeat a random block of prime length, so that making them costs a copy, not a random number per element,
and no row equals another.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.types import scalar_of

if TYPE_CHECKING:
    import numpy as np

    from ktc.ir.kernel import Param

BLOCK = 4194301  # the largest prime below 2^22

WHOLE = frozenset({"arange", "offsets", "starts", "sorted", "distinct", "distinct-rows"})
"""Contents that mean something as a whole, by their order or by differing: never repeated."""

_PLAIN = {
    "f16": "float16", "f32": "float32", "f64": "float64", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool",
}  # fmt: skip
_EXTENDED = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}

VALUES = "values"
"""What the content is called of a buffer whose elements the workload file lists."""

MARKED = 8
"""One in so many elements of a buffer with a mark is that."""

COUNTED = frozenset({"index", "arange", "offsets", "starts", "distinct", "distinct-rows"})
"""Contents that are whole numbers whatever the dtype, which say where something is: labels of a classifier come as
floats."""

EXACT_LIMIT = {"e4m3": 2, "e5m2": 2, "bf16": 3, "f16": 4}
"""Largest magnitude of exact inputs, by dtype (4 elsewhere): small, so that sums of products stay representable."""


@functools.cache
def numpy_dtype(name: str) -> np.dtype:
    """The numpy dtype of an IR scalar name; bf16 and fp8 come from ml_dtypes."""
    import numpy as np

    if name in _PLAIN:
        return np.dtype(_PLAIN[name])
    if name in _EXTENDED:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, _EXTENDED[name]))
    raise KtcError(
        "E-WORKLOAD-DTYPE", f"no data type named '{name}'", hint=f"one of {', '.join([*_PLAIN, *_EXTENDED])}"
    )


@dataclass(frozen=True)
class Repeated:
    """An array that repeats ``block`` (of one dimension) until it is as large as ``shape`` says; made by
    :meth:`whole`."""

    block: np.ndarray
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        return self.block.dtype

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.block.itemsize

    def whole(self) -> np.ndarray:
        import numpy as np

        return np.resize(self.block, self.size).reshape(self.shape)


def make_array(
    dtype: str, shape: tuple[int, ...], init: str, bounds: tuple[float, float] | None, key: str, seed: int, exact: bool
) -> np.ndarray | Repeated:
    """One buffer. ``key`` (the argument's name) and ``seed`` fix its content.

    ``exact`` replaces random floats by non-zero integers of magnitude at most ``EXACT_LIMIT``, of those within
    ``bounds`` where these hold some; integer buffers and indices are the same either way.
    """
    import numpy as np

    np_dtype = numpy_dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64))
    rng = np.random.default_rng([seed, zlib.crc32(key.encode())])
    count = size if init in WHOLE else min(size, BLOCK)
    floating = dtype[0] in "be" or dtype[0] == "f"
    if dtype == "bool":
        floating = False
    if init not in INITS:
        raise KtcError(
            "E-WORKLOAD-INIT", f"no init '{init}' for '{key}'", hint=f"one of {', '.join(INITS)}", exit_code=2
        )
    if bounds is not None and bounds[0] > bounds[1]:
        what = f"the range of '{key}' goes from {bounds[0]:g} to {bounds[1]:g}, and has no number"
        raise KtcError("E-WORKLOAD-RANGE", what, hint="its first number is the smallest: range = [0, 15]", exit_code=2)
    if exact and floating and init not in {"zeros", "poison", *COUNTED}:
        values: Any = _exact_numbers(rng, count, EXACT_LIMIT.get(dtype, 4), bounds)
        values = np.sort(values) if init == "sorted" else values
    else:
        values = INITS[init](rng, count, bounds, floating) if init != "distinct-rows" else _rows(rng, shape, bounds)
    with np.errstate(over="ignore", invalid="ignore"):
        block = np.asarray(values).astype(np_dtype)
    return block.reshape(shape) if count == size else Repeated(block, shape)


def _exact_numbers(rng: Any, n: int, limit: int, bounds: tuple[float, float] | None) -> Any:
    """``n`` integers up to ``limit`` of either sign, without 0; within ``bounds`` where these hold several of them."""
    numbers = [v for v in range(-limit, limit + 1) if v]
    inside = [v for v in numbers if bounds is None or bounds[0] <= v <= bounds[1]]
    if 1 < len(inside) < len(numbers):
        return rng.choice(inside, n)
    return rng.integers(1, limit + 1, n) * rng.choice([-1, 1], n)


def initial_array(p: Param) -> np.ndarray:
    """What a variable at file scope holds before the first launch, as its source says."""
    import numpy as np

    return np.asarray(p.init).astype(numpy_dtype(scalar_of(p.sym.type).name))


def given_array(dtype: str, shape: tuple[int, ...], values: Sequence[float], key: str, exact: bool) -> np.ndarray:
    """A buffer whose content the workload file has, element by element. ``exact``: fractions become whole numbers.

    Raises:
        KtcError: E-WORKLOAD-SHAPE, there are more or fewer values than elements.
    """
    import numpy as np

    if math.prod(shape) != len(values):
        message = f"'{key}' has the shape {shape} and {len(values)} values"
        raise KtcError("E-WORKLOAD-SHAPE", message, hint="give each element its value")
    made = np.asarray(values)
    if exact and made.dtype.kind == "f":
        limit = EXACT_LIMIT.get(dtype, 4)
        made = np.sign(made) * np.clip(np.rint(np.abs(made)), made != 0, limit)
    return made.astype(numpy_dtype(dtype)).reshape(shape)


def marked(values: np.ndarray, mark: int, key: str, seed: int) -> np.ndarray:
    """``values`` with ``mark`` for one in eight of them, at places that ``key`` and ``seed`` fix."""
    import numpy as np

    rng = np.random.default_rng([seed, zlib.crc32(key.encode()), 1])
    return np.where(rng.integers(0, MARKED, values.shape) == 0, np.asarray(mark, values.dtype), values)


def _normal(rng: Any, n: int, bounds: Any, floating: bool) -> Any:
    import numpy as np

    if not floating:
        return _ints(rng, n, bounds, floating)
    values = rng.standard_normal(n, dtype=np.float32)
    return values if bounds is None else np.clip(values, *bounds)


def _uniform(rng: Any, n: int, bounds: Any, floating: bool) -> Any:
    import numpy as np

    if not floating:
        return _ints(rng, n, bounds, floating)
    lo, hi = bounds or (0.0, 1.0)
    return rng.random(n, dtype=np.float32) * np.float32(hi - lo) + np.float32(lo)


def _ints(rng: Any, n: int, bounds: Any, floating: bool) -> Any:
    lo, hi = bounds or ((-4, 4) if floating else (0, 15))
    return _with_ends(rng, n, int(lo), int(hi)) if bounds else _between(rng, n, int(lo), int(hi))


def _bits(rng: Any, n: int, bounds: Any, floating: bool) -> Any:
    """Words of any bits: packed numbers, masks. Of sixteen one has none set, one all of them, one the same byte
    everywhere, two few upper ones and three few lower ones, as small numbers do. Floats are normal."""
    import numpy as np

    if floating:
        return _normal(rng, n, bounds, floating)
    words = _between(rng, n, 0, (1 << 64) - 1)
    kind, far = rng.integers(0, 16, n), rng.integers(0, 64, n).astype(np.uint64)
    kinds = {
        (0,): np.uint64(0),
        (1,): ~np.uint64(0),
        (2,): (words & np.uint64(0xFF)) * np.uint64(0x0101010101010101),
        (3, 4): words << far,
        (5, 6, 7): words >> far,
    }
    return np.select([np.isin(kind, ks) for ks in kinds], list(kinds.values()), words)


def _index(rng: Any, n: int, bounds: Any, floating: bool) -> Any:
    lo, hi = bounds or (0, max(0, n - 1))
    return _with_ends(rng, n, int(lo), int(hi))


def _with_ends(rng: Any, n: int, lo: int, hi: int) -> Any:
    """``n`` random integers from ``lo`` to ``hi``, the largest and the smallest among them, at random places: what
    reads past the last row that an index may name does so for no other. One alone is the largest."""
    values = _between(rng, n, lo, hi)
    for place, end in zip(rng.choice(n, min(n, 2), replace=False), (hi, lo)):
        values[place] = end
    return values


def _from(lo: int, places: Any) -> Any:
    """``places`` counted from ``lo``, as 64 bits hold them."""
    return places + lo if lo < 1 << 62 else places.astype("uint64") + lo


def _between(rng: Any, n: int, lo: int, hi: int) -> Any:
    """``n`` random integers from ``lo`` to ``hi``, as 64 bits hold them."""
    import numpy as np

    return rng.integers(lo, hi, n, dtype=np.int64 if hi < 1 << 63 else np.uint64, endpoint=True)


def _distinct(rng: Any, n: int, bounds: Any, floating: bool) -> Any:
    """No two alike, in no order: where each of many threads stores."""
    lo, hi = bounds or (0, max(0, n - 1))
    if n > hi - lo + 1:
        what = f"{n} elements cannot all differ between {lo:g} and {hi:g}"
        raise KtcError("E-WORKLOAD-DISTINCT", what, hint="widen the range of the argument whose init is 'distinct'")
    return _from(int(lo), rng.choice(min(int(hi) - int(lo) + 1, 1 << 62), n, replace=False))


def _rows(rng: Any, shape: tuple[int, ...], bounds: Any) -> Any:
    """No two alike in a row, the last dimension of ``shape``: the experts of a token."""
    import numpy as np

    row = shape[-1] if shape else 1
    lo, hi = bounds or (0, max(0, row - 1))
    values, rows = int(hi) - int(lo) + 1, int(np.prod(shape[:-1], dtype=np.int64))
    if row > values:
        what = f"{row} elements of a row cannot all differ between {lo:g} and {hi:g}"
        hint = "widen the range of the argument whose init is 'distinct-rows'"
        raise KtcError("E-WORKLOAD-DISTINCT", what, hint=hint)
    if not row or not rows:
        return np.zeros(0)
    starts, steps = rng.integers(0, values, (rows, 1)), rng.choice(_coprime(values), (rows, 1))
    return ((starts + steps * np.arange(row)) % values + int(lo)).ravel()


def _coprime(n: int) -> list[int]:
    """Some steps that come round to where they began only after ``n``."""
    return [s for s in (1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31) if math.gcd(s, n) == 1]


def _distinct_row(rng: Any, n: int, bounds: Any, floating: bool) -> Any:
    return _rows(rng, (n,), bounds)


def _lse(rng: Any, n: int, bounds: Any, floating: bool) -> Any:
    """Log-sum-exps of attention: moderate numbers, and an infinity of either sign in one of sixteen places."""
    import numpy as np

    values = 4.0 * rng.standard_normal(n, dtype=np.float32)
    values[rng.integers(0, 32, n) == 0] = -np.inf
    values[rng.integers(0, 32, n) == 0] = np.inf
    return values


def _specials(rng: Any, n: int, bounds: Any, floating: bool) -> Any:
    """Normals with zeros of both signs, infinities, NaN, subnormals, huge and tiny values mixed in."""
    import numpy as np

    values = rng.standard_normal(n, dtype=np.float32)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-7, -1e-40, 6e4, -3e38], dtype=np.float32)
    where = rng.integers(0, 16, n) == 0
    values[where] = odd[rng.integers(0, len(odd), int(where.sum()))]
    return values


def _zeros(rng: Any, n: int, bounds: Any, floating: bool) -> Any:
    import numpy as np

    return np.zeros(n, dtype=np.float32)


def _poison(rng: Any, n: int, bounds: Any, floating: bool) -> Any:
    """What an output holds before the kernel runs: NaN, or a number no kernel writes by chance."""
    import numpy as np

    return np.full(n, np.nan, dtype=np.float32) if floating else np.full(n, 0x5A, dtype=np.int64)


def _offsets(rng: Any, n: int, bounds: Any, floating: bool) -> Any:
    """Where the parts of something begin, and the end of the last: ascending from ``bounds[0]`` to ``bounds[1]``."""
    import numpy as np

    lo, hi = bounds or (0, n)
    values = np.sort(_between(rng, n, int(lo), int(hi)))
    values[:1], values[-1:] = lo, hi
    return values


def _starts(rng: Any, n: int, bounds: Any, floating: bool) -> Any:
    """Where rows begin that all have as much room: from ``bounds[0]`` to ``bounds[1]``, as far apart as each other."""
    import numpy as np

    lo, hi = bounds or (0, n - 1)
    return int(lo) + np.arange(n) * (int(hi) - int(lo)) // max(n - 1, 1)


def _sorted(rng: Any, n: int, bounds: Any, floating: bool) -> Any:
    """Random numbers in ascending order: a table that is searched."""
    import numpy as np

    return np.sort(_uniform(rng, n, bounds, floating))


def _arange(rng: Any, n: int, bounds: Any, floating: bool) -> Any:
    import numpy as np

    return np.arange(n) + int((bounds or (0, 0))[0])


INITS: dict[str, Callable[[Any, int, Any, bool], Any]] = {
    "normal": _normal,
    "uniform": _uniform,
    "ints": _ints,
    "bits": _bits,
    "index": _index,
    "distinct": _distinct,
    "distinct-rows": _distinct_row,
    "lse": _lse,
    "specials": _specials,
    "zeros": _zeros,
    "arange": _arange,
    "offsets": _offsets,
    "starts": _starts,
    "sorted": _sorted,
    "poison": _poison,
}
"""How an argument can be filled: name -> (generator, count, bounds, is float) -> values."""
