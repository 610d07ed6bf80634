"""Rules of a sequence of launches: nothing but launches, and temporaries that are written before they are read."""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.diagnostics import Loc
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Launched, Sym
from ktc.ir.sequences import launches, temporaries
from ktc.ir.types import Ptr
from ktc.ir.walk import assigned, used_in, walk


def check_sequence(kernel: Kernel) -> Iterator[tuple[str, str, Loc | None]]:
    """Code, message and place of each rule that a sequence breaks as a whole."""
    if kernel.launch is not None:
        yield "V-SEQUENCE", f"{kernel.name} is a sequence of launches and has a launch line too", kernel.loc
    for s in kernel.body:
        if not isinstance(s, Launched):
            yield "V-SEQUENCE", f"a {type(s).__name__.lower()} statement between launches", s.loc
        elif any(isinstance(inner, Launched) for inner in walk(s.body)):
            yield "V-SEQUENCE", f"the launch of '{s.kernel}' holds another launch", s.loc
    yield from _temporaries(kernel)
    for s in launches(kernel):
        for b in s.restrict:
            if not isinstance(b.type, Ptr):
                yield "V-SEQUENCE", f"'{b.name}' of the launch of '{s.kernel}' is restrict and no buffer", s.loc


def _temporaries(kernel: Kernel) -> Iterator[tuple[str, str, Loc | None]]:
    """Temporaries that a launch reads before any has written them, or that none reads."""
    written, read = set[Sym](), set[Sym]()
    own = {p.sym for p in temporaries(kernel)}
    for s in launches(kernel):
        touched = used_in(s.body) & own
        for b in sorted(touched - written - assigned(s.body), key=lambda b: b.name):
            what = f"the launch of '{s.kernel}' reads the temporary '{b.name}', which no launch before it writes"
            yield "V-SEQUENCE", what, s.loc
        read |= touched
        written |= assigned(s.body) & own
    for b in sorted(own - read, key=lambda b: b.name):
        yield "V-SEQUENCE", f"no launch touches the temporary '{b.name}'", kernel.loc


__all__ = ["check_sequence"]
