"""Main loops of products by warps: digits of indices, columns to and fro, operands a step ahead; wrong versions."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import pytest

from ktc.backends import emit
from ktc.ir.fold import cast, evaluate
from ktc.ir.interp import equivalent, run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Binary,
    Body,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    MatrixLoad,
    Mma,
    Select,
    Stmt,
    Store,
    Var,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.types import I32
from ktc.ir.verifier import verify
from ktc.ir.walk import map_body, map_expr, walk, walk_expr
from ktc.passes import lowering
from ktc.passes.lowering import materialise
from ktc.passes.lowering.decider import Decider
from ktc.passes.lowering.distribution.digits import reduced
from ktc.passes.lowering.tensor import fragments_ahead as ahead
from ktc.passes.lowering.tensor.carried_products import carried
from tests.passes.checks import applied
from tests.passes.tensor.test_tensorize import GEMM, arguments
from tests.passes.tensor.test_tensorize_warpgroup import LAYOUT, PIPELINE

SCRIPT = (PIPELINE % (128, 2)).replace("fragment=m64n64k16_f16 warps=1,2", "warps=2,2") + LAYOUT
SIZES = ((72, 136, 64), (64, 128, 128))


def lowered() -> Kernel:
    return materialise(applied(GEMM, SCRIPT))


def differs(k: Kernel) -> object:
    return equivalent(GEMM, k, [arguments(*s) for s in SIZES])


# ------------------------------------------------------------------------------------------------------------ digits

U, V, S = (fresh(n, I32) for n in "uvs")
TID = HwIndex("thread", "x")
KNOWN: dict[Expr, int] = {Var(U): 3, Var(V): 7}


def of(text: str) -> Expr:
    """An expression over u, v (counted), s (any sign) and the thread."""
    names = {"u": Var(U), "v": Var(V), "s": Var(S), "t": TID}
    out = eval(text.replace("/", "//"), {}, {n: _Sum(e) for n, e in names.items()})
    return out.e


class _Sum:
    """Python's operators as IR."""

    def __init__(self, e: Expr) -> None:
        self.e = e

    def _with(self, op: str, other: object) -> _Sum:
        return _Sum(Binary(op, self.e, other.e if isinstance(other, _Sum) else i32(other)))  # type: ignore[arg-type]

    def __add__(self, o: object) -> _Sum:
        return self._with("+", o)

    def __mul__(self, o: object) -> _Sum:
        return self._with("*", o)

    def __floordiv__(self, o: object) -> _Sum:
        return self._with("/", o)

    def __mod__(self, o: object) -> _Sum:
        return self._with("%", o)

    def __xor__(self, o: object) -> _Sum:
        return self._with("^", o)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(u * 16 + t % 8) % 8", "t % 8"),
        ("(t * 64 + u * 16 + v * 2) / 64", "t"),
        ("(t * 64 + u * 16 + v * 2) % 64", "u * 16 + v * 2"),
        ("(t * 64 + u * 16 + v * 6) % 32", "(u * 16 + v * 6) % 32"),  # v * 6 reaches 42
        ("(t * 64 + u * 32) / 64", "t + u * 32 / 64"),  # u * 32 reaches 96
        ("(t * 64 + u * 32 + v * 2) / 64", "t + u / 2"),
        ("(t * 64 + u * 32 + v * 2) % 64", "u % 2 * 32 + v * 2"),
        ("(t * 16 + v) % 64 % 16", "v"),
        ("(u * 48 + v) / 64", "(u * 48 + v) / 64"),
        ("(s * 64 + v) / 64", "(s * 64 + v) / 64"),  # s may be negative
        ("(t + s) % 8", "(t + s) % 8"),
        ("(v + t % 32 / 16 % 2 * 8) % 16", "v + t % 32 / 16 * 8"),
    ],
)
def test_digits(before: str, after: str) -> None:
    e = of(before)
    found = reduced(e, KNOWN)
    for u, v, t, s in itertools.product(range(4), range(8), (0, 5, 31, 77), (-3, 2)):
        env = {Var(U): u, Var(V): v, Var(S): s, TID: t}
        values = [_value(x, env) for x in (e, found, of(after))]
        assert values[0] == values[1] == values[2], (u, v, t, s)
    assert _divisions(found) == _divisions(of(after))
    assert not any(isinstance(x, Binary) and TID in (x.a, x.b) for x in walk_expr(found))  # named and converted later


def _value(e: Expr, env: dict[Expr, int]) -> int | None:
    bound = map_expr(e, lambda x: Const(env[x], I32) if x in env else x)
    return evaluate(bound, {})  # type: ignore[return-value]


def _divisions(e: Expr) -> int:
    return sum(isinstance(x, Binary) and x.op in "/%" for x in walk_expr(e))


def test_indices_of_fragments_keep_no_remainder_of_tiles() -> None:
    text = emit(lowered(), "cuda-sm90").text
    loads = text[text.index("ldmatrix<4, false>(&a") : text.index("mma_m16n8k16_f16(acc")]
    assert ") % 8 * 8" not in loads and "/ 64) * 64" not in loads and "% 64) ^" not in loads


# ---------------------------------------------------------------------------------------------------- order and sets


def test_the_main_loop() -> None:
    k = lowered()
    assert verify(k) == [] and canonical(parse_kernel(print_kernel(k))) == canonical(k)
    text = print_kernel(k)
    assert "array a: f16[2, 2, 8]" in text and "a[(k + 1) % 2, " in text and "a[k % 2, " in text
    assert text.count("mma m16n8k16_f16") == 3 and text.count(", 1]), a[1, u") == 2  # left over, a step, the last
    assert sum(isinstance(s, Decl) and isinstance(s.init, Select) for s in walk(k.body)) == 3  # to and fro
    assert differs(k) is None and run(k, arguments(64, 128, 192)).findings == []


def test_products_stay_in_their_round_where_it_uses_the_sums() -> None:
    """A step's product may not be late for anybody: a round that stores its sums keeps its last products."""
    text = print_kernel(applied(GEMM, SCRIPT))
    each = parse_kernel(text.replace("acc[row_1, col_1] = sum", "acc[row_1, col_1] = sum * 0.5"))
    assert each != applied(GEMM, SCRIPT) and text.count("acc[row_1, col_1] = sum") == 1
    low = materialise(each)
    assert sum(isinstance(s, Mma) for s in walk(low.body)) == 1
    assert equivalent(each, low, [arguments(64, 128, 128)]) is None


@pytest.mark.parametrize("kind", ["round", "scale", "tile"])
def test_products_stay_where_something_of_their_round_is_among_them(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the next round they would find that round's number, its scale, its tile."""
    seen: list[tuple[Body, Decider]] = []
    monkeypatch.setattr(lowering, "carried", lambda body, decide: seen.append((body, decide)) or body)
    lowered()
    ((body, decide),) = seen
    assert carried(body, decide) != body
    scale, note = fresh("scale", I32), fresh("note", I32)
    tile = next(s.buffer for s in walk(body) if isinstance(s, MatrixLoad))

    def on(s: Stmt) -> Stmt | tuple[Stmt, ...]:
        if not isinstance(s, For) or not any(isinstance(x, For) and x.body[0:1] == load for x in s.body):
            return s
        what = {"round": Var(s.var), "scale": Var(scale), "tile": Load(tile, (i32(0),) * len(tile.type.shape))}[kind]
        late = Decl(note, cast(what, I32))
        steps = tuple(dataclasses.replace(x, body=(*x.body, late)) if isinstance(x, For) and x.body[0:1] == load else x
                      for x in s.body)  # fmt: skip
        return dataclasses.replace(s, body=(Decl(scale, i32(2)), *steps))

    load = [s.body[0:1] for s in walk(body) if isinstance(s, For) and isinstance(s.body[0], If)
            and any(isinstance(x, Mma) for x in walk(s.body[1:]))][-1]  # fmt: skip
    changed = map_body(body, on)
    assert changed != body and carried(changed, decide) == changed


def test_one_set_of_operands_where_registers_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ahead.two_sets(128, 32, 4, 256) and not ahead.two_sets(160, 32, 4, 256)
    assert ahead.two_sets(32, 16, 2, 512) and not ahead.two_sets(64, 16, 2, 512)
    assert not ahead.two_sets(64, 16, 1, 128) and not ahead.two_sets(64, 16, None, 128)
    monkeypatch.setattr(ahead, "MOST", 0)
    k = lowered()
    assert sum(isinstance(s, MatrixLoad) for s in walk(k.body)) == 2 and differs(k) is None


def _one_set(s: Stmt) -> Stmt:
    """Products of every step read the first set."""
    if not isinstance(s, Mma) or not isinstance(s.a, Load):
        return s
    return dataclasses.replace(s, a=dataclasses.replace(s.a, index=(i32(0), *s.a.index[1:])))


def _one_fragment(s: Stmt) -> Stmt:
    """The way back stays at one column of fragments."""
    if not isinstance(s, Decl) or not isinstance(s.init, Select):
        return s
    return dataclasses.replace(s, init=dataclasses.replace(s.init, a=i32(0)))


def _nothing_left(s: Stmt) -> Stmt | None:
    """What is left over from the last round is forgotten."""
    late = isinstance(s, For) and s.body and isinstance(s.body[-1], Mma) and s.body[-1].a.index[0] == i32(1)  # type: ignore[attr-defined]
    return None if late else s


def _nothing_first(s: Stmt) -> Stmt | None:
    """The first round adds what happens to be in its registers."""
    return None if isinstance(s, Store) and s.buffer.name in ("a", "b") else s


@pytest.mark.parametrize("wrong", [_one_set, _one_fragment, _nothing_left, _nothing_first])
def test_wrong_versions_are_caught(wrong: Callable[[Stmt], Stmt | None]) -> None:
    k = lowered()
    changed = k.with_(body=map_body(k.body, wrong))
    assert changed != k and differs(changed) is not None
