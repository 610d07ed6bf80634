"""What PyTorch expects of an exported operator, and what it has to do with wrong calls."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Protocol

from ktc.ir.workload import Workload

SUMS = 1e-3
"""By how much two calls may differ: sums by atomics come in any order."""


class Package(Protocol):
    """An exported package on its device: its operators, and buffers and scalars of a call by name."""

    @property
    def calls(self) -> Any: ...

    def call(self, work: Workload, sizes: Mapping[str, int]) -> tuple[dict[str, Any], dict[str, Any]]: ...


def checked(side: Package, work: Workload, sizes: Mapping[str, int]) -> dict[str, str]:
    """Each check of the operators at ``sizes`` with '' if it passed, else what it said."""
    arrays, given = side.call(work, sizes)
    said = {name: _said(check, side, arrays, given) for name, check in CHECKS.items()}
    return said | {f"{n} = 0": _said(_nothing(work, {**sizes, n: 0}), side, arrays, given) for n in sizes}


def _operators(
    side: Package, arrays: Mapping[str, Any], given: Mapping[str, Any]
) -> tuple[Any, list[Any], Any, list[Any]]:
    """The functional operator and the one that writes into its arguments, each with its arguments."""
    import torch

    o, name = side.calls, side.calls.exported.name
    space = getattr(torch.ops, o._library.ns)
    scalars = [given[n] for n in o.scalar_names]
    pure = [arrays[p.name] for p in o.inputs] + scalars
    into = [arrays[p.name] for p in o.exported.buffers] + scalars
    return getattr(space, name).default, pure, getattr(space, f"{name}_out").default, into


def _said(check: Any, side: Package, arrays: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    import torch

    try:
        said = check(side, arrays, given) or ""
        torch.cuda.synchronize()
        return str(said)
    except Exception as e:
        return f"{type(e).__name__}: {e}"[:300]


def _opcheck(side: Package, arrays: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    import torch

    pure, a, into, b = _operators(side, arrays, given)
    found = [torch.library.opcheck(op, args, raise_exception=False) for op, args in ((pure, a), (into, b))]
    return "; ".join(f"{k}: {v}" for r in found for k, v in r.items() if v != "SUCCESS")


def _compiled(side: Package, arrays: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    import torch

    op, args, _, _ = _operators(side, arrays, given)
    f = torch.compile(lambda *x: op(*x), fullgraph=True)
    got, want = (x if isinstance(x, tuple) else (x,) for x in (f(*args), op(*args)))
    pairs = [(x.double(), y.double()) for x, y in zip(got, want, strict=True)]
    same = all(torch.allclose(x, y, rtol=SUMS, atol=SUMS, equal_nan=True) for x, y in pairs)  # sums by atomics
    return "" if same else "another result than without torch.compile"


def _wrong(change: Any) -> Any:
    """A check that a call in which one array is changed is refused."""

    def check(side: Package, arrays: Mapping[str, Any], given: Mapping[str, Any]) -> str:
        names = [n for n, t in arrays.items() if t is not None and t.ndim]
        ends = []
        for name in names:
            changed = change(arrays[name])
            if changed is None:
                continue
            with contextlib.suppress(TypeError, ValueError, RuntimeError):
                side.calls.run({**arrays, name: changed}, given)
                ends.append(name)
        return f"{', '.join(ends)}: not refused" if ends else ""

    return check


def _another_dtype(t: Any) -> Any:
    import torch

    return t.to(torch.complex64) if t.dtype.is_floating_point and t.element_size() > 1 else None


def _strided(t: Any) -> Any:
    import torch

    return torch.stack((t, t), -1)[..., 0] if t.numel() > 1 else None


def _nothing(work: Workload, sizes: Mapping[str, int]) -> Any:
    """A check that a call in which a size is zero does what the original does, or is refused. Where its integers have
    no value to take (rows of an empty table), there is no such call."""

    def check(side: Package, arrays: Mapping[str, Any], given: Mapping[str, Any]) -> str:
        import torch

        try:
            chosen, scalars = side.call(work, sizes)
            original, _ = side.call(work, sizes)
        except (ArithmeticError, ValueError):
            return ""
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            side.calls.run(chosen, scalars)
            side.calls.run(original, scalars, None)
        pairs = ((chosen[n], original[n]) for n in chosen if chosen[n] is not None)
        same = all(torch.allclose(a.double(), b.double(), rtol=0, atol=0, equal_nan=True) for a, b in pairs)
        return "" if same else "another result than the original's"

    return check


CHECKS = {
    "opcheck": _opcheck,
    "torch.compile": _compiled,
    "another dtype": _wrong(_another_dtype),
    "another rank": _wrong(lambda t: t.reshape(1, 1, 1, *t.shape)),
    "a CPU tensor": _wrong(lambda t: t.cpu()),
    "strides": _wrong(_strided),
}
