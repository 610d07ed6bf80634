"""Elements of a word that was put into a private array to be taken apart, as shifts of the word.

before                                     after
    array b: i8[4]                             let b: u32 = w
    b[0 +: 4] = w as.bit i8x4                  q[i] = i8(b)
    q[i] = b[0]                                p[i] = i8(b >> 8)
    p[i] = b[1]

Instructions that round to 8 bits leave them in a register of 32, whose first byte is read through a pointer.
"""

from __future__ import annotations

from functools import partial

from ktc.ir.fold import evaluate, is_const
from ktc.ir.nodes import Alloc, Binary, Body, Cast, Const, Decl, Expr, Load, Stmt, Store, Sym, Var, fresh
from ktc.ir.storage import is_local_array
from ktc.ir.types import Array, Scalar, Vec
from ktc.ir.walk import assigned, declared, keep, map_body, used_in, walk, with_list_around


def with_packed_lanes(body: Body) -> Body:
    """``body`` with these words in place of arrays that one store fills, each load behind it in its list."""
    arrays = [s.sym for s in walk(body) if isinstance(s, Alloc) and is_local_array(s.sym)]
    for array in arrays:
        stores = [s for s in walk(body) if isinstance(s, Store) and s.buffer == array]
        word = _word(stores[0], array) if len(stores) == 1 else None
        if word is None:
            continue
        changed = with_list_around(body, stores[0], partial(_as_word, stores[0], word))
        changed = None if changed is None else map_body(changed, partial(_without, array))
        if changed is not None and array not in used_in(changed) | assigned(changed) | set(declared(changed)):
            body = changed
    return body


def _word(s: Store, array: Sym) -> Expr | None:
    """The integer whose bits ``s`` leaves in all of ``array``."""
    t, v = array.type, s.value
    if not isinstance(t, Array) or len(t.shape) != 1 or not isinstance(t.elem, Scalar) or not t.elem.is_int:
        return None
    if evaluate(t.shape[0], {}) != s.width or not is_const(s.index[0], 0):
        return None
    if not isinstance(v, Cast) or v.style != "bit" or not isinstance(v.to, Vec):
        return None
    return v.x if isinstance(v.x.type, Scalar) and v.x.type.is_int and v.x.type.bits > t.elem.bits else None


def _as_word(s: Store, word: Expr, before: Body, behind: Body) -> Body:
    """The list around ``s``, in which the elements that it stores are digits of ``word``."""
    t, elem = word.type, s.buffer.type.elem  # type: ignore[attr-defined]
    assert isinstance(t, Scalar)
    bits = Scalar("uint", t.bits)
    name = fresh(s.buffer.name, bits)

    def digit(e: Expr) -> Expr:
        if not isinstance(e, Load) or e.buffer != s.buffer or e.width != 1 or not is_const(e.index[0]):
            return e
        down = int(evaluate(e.index[0], {}) or 0) * elem.bits
        return Cast(elem, Binary(">>", Var(name), Const(down, bits)) if down else Var(name))

    kept = Decl(name, word if t == bits else Cast(bits, word), const=True, loc=s.loc, comments=s.comments)
    return (*before, kept, *map_body(behind, keep, digit))


def _without(array: Sym, s: Stmt) -> Stmt | None:
    return None if isinstance(s, Alloc) and s.sym == array else s


__all__ = ["with_packed_lanes"]
