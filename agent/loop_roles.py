"""Scripts by the roles of loops and arrays instead of their names, so that what was learnt on one kernel applies to
another: ``distribute{loop=idx ...}`` is remembered as "the unit-stride loop over threads".

Loops that the source calls alike (sweeps of one row) are a group. A role says what is spread over blocks, how the loop
moves through memory, and the place among groups of that role: ``_unit_0_1`` is the second loop of the first group with
unit stride, ``_unit_0.*`` all of that group; ``_in_2`` the third array that is only read. Names that passes made of a
loop's (``k_tile``) keep what they added.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ktc.ir.analysis.planner_facts import BufferFacts, KernelFacts, LoopFacts
from ktc.ir.diagnostics import KtcError
from ktc.passes.core.language import parse_script
from ktc.passes.core.script import Arg, DistSpec, KnobRef, Script, Step

_PREFIXED = re.compile(r"(loop:|array:|stmt:)?([A-Za-z_]\w*)(\.\*)?")
_ROLE = re.compile(r"_[a-z]+_\d+(_\d+)?")


@dataclass(frozen=True)
class Roles:
    """Names of one kernel's loops, groups of loops and arrays, with the role of each; and the other way round."""

    role_of: Mapping[str, str]
    group_of: Mapping[str, str]  # stem -> role of the group

    @staticmethod
    def of(f: KernelFacts) -> Roles:
        """The roles in a kernel in parallel form."""
        seen: Counter[str] = Counter()
        groups: dict[str, str] = {}
        members: Counter[str] = Counter()
        roles: dict[str, str] = {}
        for x in f.loops:
            if x.stem not in groups:
                kind = _loop_role(x)
                groups[x.stem] = f"_{kind}_{seen[kind]}"
                seen[kind] += 1
            group = groups[x.stem]
            roles.setdefault(x.name, f"{group}_{members[group]}")
            members[group] += 1
        for b in f.buffers:
            kind = _array_role(b)
            roles.setdefault(b.name, f"_{kind}_{seen[kind]}")
            seen[kind] += 1
        return Roles(roles, groups)

    def abstract(self, script: str) -> str:
        """``script`` with roles for names."""
        return _renamed(script, self._to_role)

    def concrete(self, script: str) -> str | None:
        """``script`` with this kernel's names for roles; None where the kernel has nothing in one of them."""
        try:
            return _renamed(script, self._to_name) if _ROLE.search(script) else script
        except (KeyError, KtcError):
            return None

    def _to_role(self, name: str, whole_group: bool) -> str:
        if whole_group:
            return self.group_of.get(name, name)
        base = max((n for n in self.role_of if name == n or name.startswith(f"{n}_")), key=len, default="")
        return self.role_of[base] + name[len(base) :] if base else name

    def _to_name(self, role: str, whole_group: bool) -> str:
        """Raises KeyError: nothing here has that role."""
        if whole_group:
            return {r: n for n, r in self.group_of.items()}[role] if _ROLE.fullmatch(role) else role
        found = _ROLE.match(role)
        if found is None:
            return role
        return {r: n for n, r in self.role_of.items()}[found[0]] + role[found.end() :]


def _loop_role(x: LoopFacts) -> str:
    if x.kind in ("for", "while"):
        return "serial"
    if x.levels and all(level.startswith("block") for level in x.levels):
        return "row"
    moves = "unit" if x.unit else "strided" if x.strided else "other"
    return f"sum{moves}" if x.kind == "reduce" else moves


def _array_role(b: BufferFacts) -> str:
    return "inout" if b.reads and b.writes else "out" if b.writes else "in"


def _renamed(script: str, name: Callable[[str, bool], str]) -> str:
    """``script`` with every place in it by another name. Conditions speak of knobs and sizes: they stay."""
    s = parse_script(script)
    return str(Script(tuple(_step(step, name) for step in s.steps), s.where))


def _step(step: Step, name: Callable[[str, bool], str]) -> Step:
    from ktc.passes.core.catalogue import PASSES

    declared = {p.name for p in PASSES[step.name].parameters} if step.name in PASSES else {k for k, _ in step.args}
    named = [(k if k in declared else name(k, False), _argument(v, name)) for k, v in step.args]
    return Step(step.name, tuple(named))


def _argument(value: Arg, name: Callable[[str, bool], str]) -> Any:
    if isinstance(value, tuple):
        return tuple(_argument(v, name) for v in value)
    if isinstance(value, DistSpec | KnobRef | int):
        return value
    found = _PREFIXED.fullmatch(value)
    if found is None:
        return value
    return f"{found[1] or ''}{name(found[2], found[3] is not None)}{found[3] or ''}"
