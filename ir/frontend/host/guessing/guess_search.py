"""A search for template arguments that a kernel can be read with, where nothing in a file says them.

One type and one number for everything (:func:`uniform_guesses`) seldom satisfies what a kernel asks of its arguments:
``static_assert(dim % (32 * vec) == 0 && sizeof(T) == 2)``. What stops a guess says where it is wrong: the arguments
are changed one at a time, then two at a time, and a change that gets to a place where nothing was stopped before is
kept. So asserts are met one after the other, wherever they stand: in the kernel, in a function that it calls, in a
class that it names.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Generic, TypeVar

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.host.launch_sites import LaunchSite
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.template_args import spell
from ktc.ir.frontend.meaning.values import Value
from ktc.ir.frontend.syntax.cxx_ast import TemplateParam
from ktc.ir.frontend.syntax.program import Entity

from .guessed_names import classes_asked_for, functions_asked_for
from .guesses import (
    Guess,
    asserts_around,
    bindings_of,
    declared_type,
    enum_values,
    open_parameters,
    specialised_types,
    uniform_guesses,
)

_Made = TypeVar("_Made")

TYPES = ("half", "__nv_bfloat16", "float", "int", "long long", "unsigned char", "__nv_fp8_e4m3", "unsigned", "double")
NUMBERS = ("64", "128", "256", "512", "1024", "32", "16", "8", "4", "2", "1", "192", "2048", "3", "0")
"""Arguments that are tried, those that kernels are most often written for first."""

PAIRED = 8
"""How many of them are tried where two arguments change at once."""

MAX_SAME = 9
"""Uniform guesses that may end at the same place, and guesses that may end where no argument helps: one more, and other
arguments are not what is missing."""

MAX_ATTEMPTS = 400
"""Changed guesses at most."""

WHATEVER_THE_ARGUMENTS = ("E-PP", "E-PARSE", "E-SEMA-NAME", "E-SEMA-TYPE", "E-SEMA-CALL")
"""Beginnings of refusals that no other template argument avoids: an unknown name stays unknown."""

_FOUND_IN = re.compile(r"unknown (?:type|name|function) '(\w+)(?:::|')")


@dataclass
class GuessSearch(Generic[_Made]):
    """Iterating gives (template arguments, what ``attempt`` made of them): of all uniform guesses that lead anywhere,
    or where none does, of the first that is found. ``error`` says then what stopped it."""

    lowering: KernelLowering
    entity: Entity
    sites: Sequence[LaunchSite]
    attempt: Callable[[dict[str, Value]], _Made]
    error: KtcError | None = None
    _tried: set[tuple[str, ...]] = field(default_factory=set)
    _stops: Counter[tuple[str, str]] = field(default_factory=Counter)
    _hopeless: int = 0
    """How many guesses of a round got to where no argument helps."""

    def __iter__(self) -> Iterator[tuple[dict[str, Value], _Made]]:
        uniform = list(uniform_guesses(self.lowering, self.entity, self.sites))
        if any(asserts_around(g.site) for g in uniform if g.site is not None):
            # what launches the kernel says what it may be launched with
            rounds = [[g for g in uniform if g.site is not None], [g for g in uniform if g.site is None]]
        else:
            rounds = [uniform]
        for these in rounds:
            found = False
            for made in self._round(these):
                found = True
                yield made
            if found:
                return

    @property
    def hopeless_error(self) -> KtcError | None:
        """``error``, where no other arguments avoid it."""
        return self.error if self.error is not None and not self._arguments_at_fault(self.error) else None

    def _round(self, uniform: list[Guess]) -> Iterator[tuple[dict[str, Value], _Made]]:
        self._stops.clear()
        self._hopeless = 0
        found = False
        begin: list[Guess] = []
        for guess in uniform:
            if max(self._stops.values(), default=0) > MAX_SAME:
                break
            made, new = self._try(guess)
            if made is not None:
                found = True
                yield made
            elif new:
                begin.append(guess)
        if not found:
            yield from self._changed(begin)

    def _changed(self, begin: list[Guess]) -> Iterator[tuple[dict[str, Value], _Made]]:
        """The first success among guesses that differ from those of ``begin``, deepest first."""
        deepest = [self._with_one_changed(guess) for guess in begin]
        then = deque(self._with_two_changed(guess) for guess in reversed(begin))
        until = len(self._tried) + MAX_ATTEMPTS
        while (deepest or then) and len(self._tried) < until and self._hopeless <= MAX_SAME:
            guess = next(deepest[-1] if deepest else then[0], None)
            if guess is None:
                _ = deepest.pop() if deepest else then.popleft()
                continue
            made, new = self._try(guess)
            if made is not None:
                yield made
                return
            if new:
                deepest.append(self._with_one_changed(guess))
                then.appendleft(self._with_two_changed(guess))

    def _try(self, guess: Guess) -> tuple[tuple[dict[str, Value], _Made] | None, bool]:
        """What came of ``guess``, and whether it was stopped where others were not, by what is asked of arguments."""
        try:
            full = bindings_of(self.lowering, self.entity, guess)
            if full is None or (key := tuple(map(spell, full.values()))) in self._tried:
                return None, False
            self._tried.add(key)
            return (full, self.attempt(full)), False
        except KtcError as e:
            at_fault = self._arguments_at_fault(e)
            self._hopeless += not at_fault
            if self.error is None or self._tells_more(e, self.error):
                self.error = e
            place = (e.code, str(e.loc))
            self._stops[place] += 1
            return None, at_fault and e.loc is not None and self._stops[place] == 1

    def _tells_more(self, e: KtcError, than: KtcError) -> bool:
        """Whether ``e`` says more about the kernel: what no argument helps, then anything but an assertion."""

        def rank(error: KtcError) -> tuple[bool, bool]:
            return self._arguments_at_fault(error), error.code == "E-SEMA-STATIC-ASSERT"

        return rank(e) < rank(than)

    def _arguments_at_fault(self, e: KtcError) -> bool:
        owner = _FOUND_IN.match(e.message)
        of_argument = owner is not None and any(p.name == owner[1] for p in self.entity.params or ())
        return of_argument or not e.code.startswith(WHATEVER_THE_ARGUMENTS)

    def _choices(self, guess: Guess) -> dict[str, Sequence[str]]:
        """What may be put for each argument that is open, by name."""
        own = open_parameters(self.entity) if guess.site is not None else ()
        return {p.name: self._values(p) for p in (*open_parameters(guess.host), *own)}

    def _with_one_changed(self, guess: Guess) -> Iterator[Guess]:
        for name, texts in self._choices(guess).items():
            for text in texts:
                yield replace(guess, texts={**guess.texts, name: text})

    def _with_two_changed(self, guess: Guess) -> Iterator[Guess]:
        choices = self._choices(guess)
        for a, b in combinations(choices, 2):
            for x, y in product(choices[a][:PAIRED], choices[b][:PAIRED]):
                yield replace(guess, texts={**guess.texts, a: x, b: y})

    def _values(self, p: TemplateParam) -> Sequence[str]:
        """Arguments to try for ``p``."""
        if p.kind == "type":
            asked_for = classes_asked_for(self.lowering.program, self.entity, p.name)
            return (*asked_for, *TYPES, *specialised_types(self.lowering))
        called = functions_asked_for(self.lowering.program, self.entity, p.name)
        if called:
            return called
        node = declared_type(p)
        if isinstance(node, c_ast.IdentifierType) and node.names in (["bool"], ["_Bool"]):
            return ("true", "false")
        return enum_values(self.lowering, p) or NUMBERS
