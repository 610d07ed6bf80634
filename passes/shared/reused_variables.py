"""Variables that the iterations of a loop give a value of their own before they read it, as variables of the iteration.

before                                          after
    var v: f32                                      for i in 0..n
    for i in 0..n                                     var v: f32 = x[i]
      v = x[i]                                        s += v * v
      s += v * v                                    for j in 0..m
    for j in 0..m                                     var v_1: f32 = y[j]
      v = y[j]                                        t += v_1
      t += v

Declared outside of the loops, as was once the custom, such a variable looks as if it went from one iteration to the
next. It does not where each loop that mentions it gives it a value first thing, and nothing else mentions it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from ktc.ir.analysis.order import jump
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Body, Decl, For, If, Stmt, Sym, bodies, fresh, has_bodies
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, map_body, rename, used, used_in, walk


def with_own_variables(kernel: Kernel) -> Kernel:
    """``kernel`` with such variables declared where they get their value; the same object where there are none."""
    body = kernel.body
    for decl in [s for s in walk(body) if isinstance(s, Decl) and isinstance(s.sym.type, Scalar)]:
        scope = next((b for b in _lists(body) if any(s is decl for s in b)), ())
        found = _loops(scope, decl)
        body = _replaced(body, decl, {id(s): _own(s, decl.sym) for s in found}) if found else body
    return kernel if body is kernel.body else kernel.with_(body=body)


def _replaced(body: Body, decl: Decl, loops: Mapping[int, For]) -> Body:
    """``body`` without ``decl``, and with ``loops`` in place of those with their ``id``."""
    return map_body(body, lambda s: None if s is decl else loops.get(id(s), s))


def _loops(scope: Body, decl: Decl) -> list[For]:
    """The loops that mention the variable of ``decl``, if they are all that does and each begins by giving it a
    value."""
    found: list[For] = []
    for s in scope:
        if s is decl or not _mentions(s, decl.sym):
            continue
        if not isinstance(s, For) or jump(s.body) or decl.sym in used(s.init) | used(s.cond) | used(s.step):
            return []
        if not _sets(s.body, decl.sym):
            return []
        found.append(s)
    return found


def _sets(body: Body, v: Sym) -> bool:
    """Whether ``body`` gives ``v`` a value before it reads it, in each of its branches."""
    first = next((x for x in body if _mentions(x, v)), None)
    if isinstance(first, If):
        return v not in used(first.cond) and _sets(first.then, v) and _sets(first.orelse, v)
    return isinstance(first, Assign) and first.sym == v and v not in used(first.value)


def _mentions(s: Stmt, v: Sym) -> bool:
    return v in used_in((s,)) or v in assigned((s,))


def _own(loop: For, v: Sym) -> For:
    """``loop`` with a variable of each iteration in place of ``v``."""
    at = next(k for k, s in enumerate(loop.body) if _mentions(s, v))
    s = loop.body[at]
    first = (Decl(v, s.value, loc=s.loc, comments=s.comments),) if isinstance(s, Assign) else (Decl(v, None), s)
    body = rename((*loop.body[:at], *first, *loop.body[at + 1 :]), {v: fresh(v.name, v.type)})
    return dataclasses.replace(loop, body=body)


def _lists(body: Body) -> Iterator[Body]:
    """``body`` and every list of statements in it."""
    yield body
    for s in body:
        for b in bodies(s) if has_bodies(s) else ():
            yield from _lists(b)


__all__ = ["with_own_variables"]
