"""What host variables hold at one place, as the expressions that were assigned to them.

    dim3 grid(n, 2);           grid.x: n       grid.y: 2
    grid.x /= 4;               grid.x: n / 4
    if (n > 64) grid.y = m;    grid.y: n > 64 ? m : 2
    size_t local[2];
    local[0] = 16;             local[0]: 16

Expressions are read where a launch stands, with the names that hold there. So whoever assigns to a variable first puts
its old value in the place of its name wherever that is mentioned: ``int b = a; a = 5;`` leaves ``b`` what ``a`` was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import Alias, Construct, CtorInit
from ktc.ir.frontend.syntax.syntax_walk import alike, contains, descendants, replaced
from ktc.ir.frontend.syntax.variable_uses import init_args

Env = dict[str, Any]
"""By name, and by ``name.x`` or ``name.0`` for what was assigned to a member or an element: a declaration, an
expression, or None where that is not known."""

MEMBERS = "xyz"


def one_by_one(items: Iterable[Any]) -> Iterator[Any]:
    """Statements with those apart that a comma joins: ``block.x = n, block.y = m;``."""
    for item in items:
        if isinstance(item, c_ast.ExprList):
            yield from item.exprs
        else:
            yield item


def assign(item: c_ast.Assignment, env: Env) -> None:
    """Follow an assignment to a variable or to a member of one; others leave ``env`` as it is."""
    key = key_of(item.lvalue)
    if key is None:
        return
    old = current(env, key)
    value = item.rvalue
    if item.op != "=":
        value = None if old is None else c_ast.BinaryOp(item.op[:-1], old, value, item.coord)
    elif _mentions(value, key):
        value = None if old is None else _replaced(value, key, old)
    forget(env, key)
    _store(env, key, value)


def _store(env: Env, key: str, value: Any) -> None:
    """``key`` is ``value`` from here on, None if that is not known; the old one is in no other."""
    if value is None and "." in key:
        env[key.partition(".")[0]] = None  # a dim3 of which one extent is not known is a number of the host
        return
    before = env.get(key)
    if isinstance(before, c_ast.Decl) and before.type is not None and value is not None:
        value = c_ast.Decl(key, [], [], [], [], before.type, value, None)
    env[key] = value


def _no_loop(item: Any, env: Env) -> bool:
    return False


def choose(
    item: c_ast.If, env: Env, changes: Callable[[Any], frozenset[str]], loops: Callable[[Any, Env], bool] = _no_loop
) -> None:
    """Follow an ``if`` whose branches assign: what either leaves is a choice of the two, where both are known.

    ``changes``: the variables that a statement changes; ``loops``: follows a loop, where that is possible.
    """
    changed = sorted(held(changes(item), env))
    ways = []
    for branch in (item.iftrue, item.iffalse):
        way = dict(env)
        followed = _follow(branch, way, changes, loops)
        ways.append(way if followed else None)
    yes, no = ways
    before = {k: current(env, k) for way in ways for k in way or env if k.partition(".")[0] in changed}
    new: dict[str, Any] = {}
    for name in changed:
        if yes is None or no is None or isinstance(env.get(name), Alias | c_ast.Typedef):
            unknown(env, name)
            continue
        keys = sorted({k for k in (*yes, *no) if k == name or k.startswith(f"{name}.")})
        ends = {k: (_at_the_end(yes, env, k), _at_the_end(no, env, k)) for k in keys if yes.get(k) is not no.get(k)}
        if any(None in both for both in ends.values()):
            unknown(env, name)
            continue
        new |= {k: c_ast.TernaryOp(item.cond, a, b, item.coord) for k, (a, b) in ends.items()}
    for key in new:  # all at once: the condition and both values are made of what was before
        forget(env, key)
    for key, value in new.items():
        unsaid = any(old is None and _mentions(value, other) for other, old in before.items())
        _store(env, key, None if unsaid else replaced(value, lambda n: before.get(key_of(n) or "")))


def _at_the_end(way: Env, env: Env, key: str, busy: frozenset[str] = frozenset()) -> Any:
    """What ``key`` is at the end of a branch, made of what was in ``env`` before it; None where that is not known."""
    value, unsaid = current(way, key), False

    def settled(n: Any) -> Any:
        nonlocal unsaid
        other = key_of(n)
        if other is None or way.get(other) is env.get(other):
            return None
        held = _at_the_end(way, env, other, busy | {key}) if other not in busy | {key} else None
        unsaid = unsaid or held is None
        return held

    if value is None or way.get(key) is env.get(key):
        return value
    value = replaced(value, settled)
    return None if unsaid else value


def decided(env: Env, cond: Any, holds: bool, steady: bool = False) -> Env:
    """``env`` where ``cond`` ``holds``, or does not: what it chose before is told, if it is made of the same values.
    ``steady``: calls that are written alike are taken to return the same."""
    cond, holds = _positive(cond, holds)
    if contains(c_ast.ExprList([cond]), (c_ast.Assignment, *(() if steady else (c_ast.FuncCall,)))):
        return env

    def chosen(n: Any) -> Any | None:
        if not isinstance(n, c_ast.TernaryOp):
            return None
        asked, when = _positive(n.cond, True)
        return replaced(n.iftrue if holds == when else n.iffalse, chosen) if alike(asked, cond) else None

    out = dict(env)
    for key, value in env.items():
        made_of = value.init if isinstance(value, c_ast.Decl) else value
        if isinstance(value, Alias | c_ast.Typedef) or made_of is None or not contains(made_of, (c_ast.TernaryOp,)):
            continue
        told = replaced(made_of, chosen)
        typed = isinstance(value, c_ast.Decl)
        out[key] = c_ast.Decl(value.name, [], [], [], [], value.type, told, None) if typed else told
    return out


def _positive(cond: Any, holds: bool) -> tuple[Any, bool]:
    """``cond`` without the negations before it, and whether that holds."""
    while isinstance(cond, c_ast.UnaryOp) and cond.op == "!":
        cond, holds = cond.expr, not holds
    return cond, holds


def unknown(env: Env, name: str) -> None:
    """From here on nothing is known of the variable ``name``, or of the member ``grid.x``."""
    if "." in name or (name in env and not isinstance(env[name], Alias | c_ast.Typedef)):
        forget(env, name)
        env[name] = None
    for key in [k for k in env if k.startswith(f"{name}.")]:
        forget(env, key)
        del env[key]


BEGUN = " as begun"
"""After the name of an array that a branch may have changed: what it is where that has not."""


def perhaps_unknown(env: Env, name: str) -> None:
    """From here on nothing is known of the array ``name``, but for what it is where a branch is not taken."""
    before = env.get(name)
    unknown(env, name)
    if isinstance(before, c_ast.Decl):
        env[name + BEGUN] = before


def with_begun(node: Any, env: Env) -> Any:
    """A copy of an expression with what elements of arrays are in their place that no branch has changed."""

    def held(n: Any) -> Any | None:
        key = element_key(n)
        name, _, at = (key or "").partition(".")
        return current(env, f"{name}{BEGUN}.{at}") if name + BEGUN in env and current(env, key or "") is None else None

    return replaced(node, held)


def shadow(env: Env, name: str) -> None:
    """A variable ``name`` is declared where there may be another one around it: arrays that were made of that one stay
    made of it. (Launches made of a shadowed number are those of template arguments, which the inner one stands for.)"""
    old = current(env, name)
    for other, value in list(env.items()) if old is not None else ():
        if isinstance(value, c_ast.Decl) and isinstance(value.init, c_ast.InitList) and _mentions(value.init, name):
            init = _replaced(value.init, name, old)
            env[other] = c_ast.Decl(value.name, [], [], [], [], value.type, init, None)


def forget(env: Env, key: str) -> None:
    """Put the value of ``key``, which is about to change, in its place in all others that are made of it."""
    old = current(env, key)
    for other, value in list(env.items()):
        if other == key or value is None or isinstance(value, Alias | c_ast.Typedef):
            continue
        made_of = value.init if isinstance(value, c_ast.Decl) else value
        if made_of is None or not _mentions(made_of, key):
            continue
        if old is None:
            env[other] = None
        elif isinstance(value, c_ast.Decl):
            env[other] = c_ast.Decl(value.name, [], [], [], [], value.type, _replaced(made_of, key, old), None)
        else:
            env[other] = _replaced(made_of, key, old)


def current(env: Env, key: str) -> Any:
    """The expression that ``key`` holds; None where that is not known."""
    name, _, member = key.partition(".")
    if key in env and member:
        return env[key]
    held = env.get(name)
    if isinstance(held, Alias | c_ast.Typedef) or held is None:
        return None
    init = held.init if isinstance(held, c_ast.Decl) else held
    if not member:
        args = init_args(init)
        return args[0] if len(args) == 1 else None
    if member.isdigit():
        listed = init.exprs if isinstance(init, c_ast.InitList) else []
        return listed[int(member)] if int(member) < len(listed) else None
    if isinstance(init, Construct):
        args = list(init.args)
    elif init is None or isinstance(init, CtorInit | c_ast.InitList):
        args = init_args(init)
    else:
        return None  # a copy of another, or what a function makes
    if len(args) == 1 and isinstance(args[0], c_ast.ID) and _has_members(env, args[0].name):
        return None
    at = MEMBERS.find(member)
    if at < 0 or len(args) > len(MEMBERS):
        return None
    return args[at] if at < len(args) else c_ast.Constant("int", "1")


def _has_members(env: Env, name: str) -> bool:
    """Whether the variable ``name`` is one with several extents, as far as what was assigned to it shows."""
    held = env.get(name)
    init = held.init if isinstance(held, c_ast.Decl) else held
    several = isinstance(init, Construct) or (init is not None and len(init_args(init)) > 1)
    return several or any(k.startswith(f"{name}.") for k in env)


def _follow(branch: Any, env: Env, changes: Callable[[Any], frozenset[str]], loops: Callable[[Any, Env], bool]) -> bool:
    """Whether ``branch`` does nothing but assign, in ``env`` then."""
    if branch is None:
        return True
    items = branch.block_items or [] if isinstance(branch, c_ast.Compound) else [branch]
    for item in one_by_one(items):
        if isinstance(item, c_ast.Assignment):
            assign(item, env)
        elif isinstance(item, c_ast.If):
            choose(item, env, changes, loops)
        elif not (isinstance(item, c_ast.EmptyStatement) or loops(item, env)) and changes(item):
            return False
    return True


def key_of(lvalue: Any) -> str | None:
    if isinstance(lvalue, c_ast.ID):
        return str(lvalue.name)
    if isinstance(lvalue, c_ast.StructRef) and isinstance(lvalue.name, c_ast.ID) and isinstance(lvalue.field, c_ast.ID):
        return f"{lvalue.name.name}.{lvalue.field.name}" if lvalue.type == "." else None
    return element_key(lvalue)


def element_key(node: Any) -> str | None:
    """``name.0`` for ``name[0]``, ``name.member.0`` for ``name.member[0]``; None for anything else."""
    if not isinstance(node, c_ast.ArrayRef) or not isinstance(node.subscript, c_ast.Constant):
        return None
    array = key_of(node.name) if isinstance(node.name, c_ast.ID | c_ast.StructRef) else None
    return f"{array}.{node.subscript.value}" if array and node.subscript.value.isdigit() else None


def with_elements(node: Any, env: Env, declared: Env) -> Any:
    """A copy of an expression with what elements of arrays hold in their place, as the array's type has it."""

    def held(n: Any) -> Any | None:
        key = element_key(n)
        value = current(env, key) if key is not None else None
        if key is None or value is None or any(element_key(x) == key for x in (value, *descendants(value))):
            return None
        value = with_elements(value, env, declared)
        decl = declared.get(key.partition(".")[0])
        of = decl.type.type if isinstance(decl, c_ast.Decl) and isinstance(decl.type, c_ast.ArrayDecl) else None
        if isinstance(of, c_ast.TypeDecl) and isinstance(of.type, c_ast.IdentifierType):
            return c_ast.Cast(c_ast.Typename(None, [], None, c_ast.TypeDecl(None, [], None, of.type)), value, n.coord)
        return value

    return replaced(node, held)


def with_members(node: Any, name: str, env: Env) -> Any:
    """A copy of an expression with what members of the variable ``name`` were assigned in their place:
    ``block.y = 128 / block.x`` is made of what ``block.x`` holds, not of a whole that it is part of."""

    def held(n: Any) -> Any | None:
        key = key_of(n)
        value = env.get(key) if key is not None and key.startswith(f"{name}.") else None
        return with_members(value, name, env) if value is not None else None

    return replaced(node, held)


def held(names: Set[str], env: Env) -> set[str]:
    """Those of ``names`` of which ``env`` holds something, itself or a member; it may hold thousands."""
    itself = {n for n in names if n in env}
    rest = names - itself
    return itself | (rest & {k.partition(".")[0] for k in env if "." in k} if rest else set())


def _place(key: str) -> Any:
    name, _, member = key.partition(".")
    if member.isdigit():
        return c_ast.ArrayRef(c_ast.ID(name), c_ast.Constant("int", member))
    return c_ast.StructRef(c_ast.ID(name), ".", c_ast.ID(member)) if member else c_ast.ID(name)


def _mentions(node: Any, key: str) -> bool:
    return any(key_of(x) == key for x in descendants(node))


def _replaced(node: Any, key: str, by: Any) -> Any:
    """A copy of ``node`` with ``by`` in the place of ``key``."""
    return replaced(node, lambda n: by if key_of(n) == key else None)


__all__ = [
    "assign", "choose", "current", "decided", "forget", "held", "one_by_one", "perhaps_unknown", "shadow", "unknown",
    "with_begun", "with_elements", "with_members",
]  # fmt: skip
