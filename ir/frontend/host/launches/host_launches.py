"""Mining host code for launches: ``kernel<T><<<grid, block, shared, stream>>>(args)`` as expressions.

A host function is followed statement by statement with symbolic values. What cannot be followed (a tensor's size, a
variable changed in a branch) becomes a host parameter of that name, if a launch needs it.
"""

from __future__ import annotations

from collections.abc import Collection

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.frontend.host.launch_sites import LaunchSite
from ktc.ir.kernel import Launch, Param
from ktc.ir.nodes import Const, Expr, Sym
from ktc.ir.types import Scalar
from ktc.ir.walk import substitute_expr, used

from .equal_numbers import says_nothing, stand_ins
from .launch_math import integer_form
from .made_members import in_terms_of_each_other
from .passed_values import PassedValues
from .same_memory import same_memory


class HostLaunch(PassedValues):
    """Turns one launch site into a ``Launch`` over a kernel's parameters."""

    def launch(self) -> tuple[Launch, tuple[Param, ...]]:
        """The launch, and the host parameters it needs.

        Raises:
            KtcError: E-LAUNCH-EXPR when a dimension is not an expression that can be followed.
        """
        with self._followed() as effects:
            given = (*self._constants(), *self._numbers())
            config = self.node.config
            self.in_grid = self.in_extents = True
            grid = self._dim3(config[0])
            self.in_grid = False
            block = self._dim3(config[1])
            shared = self._int(config[2]) if len(config) > 2 else None
            self.in_extents = False
            grid, block = self._inlined(grid, effects), self._inlined(block, effects)
            shared = self._inlined((shared,), effects)[0] if shared is not None else None
            self._know_extents()
            passed = tuple(in_terms_of_each_other(self._passed(effects), self._objects()))
            passed += tuple(self._counted(effects, {n for n, _ in passed}))
            given += tuple((n, v) for n, v in self.units.items() if n not in dict(given))
            asserted = dict(self._asserted(effects, {*dict(passed), *dict(given)}))
            given += tuple((n, int(e.value)) for n, e in asserted.items() if isinstance(e, Const))
            passed += tuple((n, e) for n, e in asserted.items() if not isinstance(e, Const))
            reals = tuple(self._reals(effects, {*dict(given)}))
            computed = {p.sym: e for p in self.params for n, e in passed if n == p.sym.name}
            reached = tuple(substitute_expr(integer_form(e), computed) for e in self._reached(effects))
            first = tuple((n, e) for n, e in self.first.items() if n not in {s.name for s in self.host.values()})
            rounds, allocated = tuple(self._rounds(effects)), tuple(self._allocated(effects))
        alike = stand_ins(reached, {p.sym for p in self.params if not p.host})
        if alike:
            parts = (tuple(substitute_expr(e, alike) for e in part) for part in (grid, block, reached))
            grid, block, reached = parts  # type: ignore[assignment]
            shared = substitute_expr(shared, alike) if shared is not None else None
            passed, allocated = (tuple((n, substitute_expr(e, alike)) for n, e in p) for p in (passed, allocated))
            reached = tuple(e for e in reached if not says_nothing(e))
        grid, block = (tuple(map(integer_form, dims)) for dims in (grid, block))  # type: ignore[assignment]
        shared = integer_form(shared) if shared is not None else None
        if isinstance(shared, Const) and shared.value == 0:
            shared = None
        host = tuple(Param(s, host=True) for s in self.host.values() if self._used(s, grid, block, shared))
        reached = tuple(e for e in reached if used(e) <= {p.sym for p in (*self.params, *host)})
        together = same_memory(self.pairs(), self.site.env)
        told = {"given": given, "passed": passed, "reached": reached, "together": together, "first": first,
                "filled": tuple(self._filled()), "rounds": rounds, "allocated": allocated, "reals": reals}  # fmt: skip
        return Launch(grid, block, shared, **told), host  # type: ignore[arg-type]

    def passed(self) -> tuple[tuple[str, Expr], ...]:
        """What this launch computes for parameters, and what numbers of the host that it depends on are."""
        with self._followed() as effects:
            self._know_extents()
            passed = tuple(in_terms_of_each_other(self._passed(effects), self._objects()))
            passed += tuple(self._counted(effects, {n for n, _ in passed}))
            return passed + tuple(self._asserted(effects, {*dict(passed)}))

    def numbers(self, but: Collection[Sym]) -> dict[str, int]:
        """The integers that this launch passes as numbers for parameters, none of those of ``but``."""
        found: dict[str, int] = {}
        with self._followed() as effects:
            for p, a in self.pairs():
                if p.sym in but or not isinstance(p.sym.type, Scalar) or not p.sym.type.is_int:
                    continue
                name = self._name_of(a) or ""
                mine = self.known.pop(name, None) if name in self.site.env else None  # what is behind its own name
                try:
                    (e,) = self._inlined((self._int(a),), effects)
                except KtcError:
                    continue
                finally:
                    if mine is not None:
                        self.known[name] = mine
                value = None if used(e) else evaluate(integer_form(e), {})
                found |= {p.sym.name: int(value)} if value is not None else {}
        return found

    def reals(self, given: Collection[str]) -> tuple[tuple[str, Expr], ...]:
        """What this launch computes of integers for floating-point parameters, but those ``given`` a number."""
        with self._followed() as effects:
            self._know_extents()
            return tuple(self._reals(effects, given))

    def _used(self, s: Sym, grid, block, shared) -> bool:
        return any(s in used(e) for e in (*grid, *block, *([shared] if shared is not None else [])))


__all__ = ["HostLaunch", "LaunchSite"]
