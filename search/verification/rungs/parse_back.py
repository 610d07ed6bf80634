"""L1 for emitters: printed text is read back by the front-end, and must denote the kernel that was printed.

The two need not be one tree: C's conversions are implicit, knobs are constants, sums associate. Both are brought to one
normal form (:mod:`.normal_form`) by exact rewrites; equal forms prove the printer right for this program. Programs that
a language can only express with other storage that no rule undoes (:func:`restructured`), or in assembly, are not
compared here.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

from ktc.backends import emit
from ktc.backends.base import Emitted
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Alloc, Cast, InlineAsm, Sym, fresh
from ktc.ir.pointer_rows import as_tables, row_pitches, takes_addresses
from ktc.ir.text import print_kernel
from ktc.ir.text.naming import symbols
from ktc.ir.types import BF16, E4M3, E5M2, Array, Ptr, Scalar, Vec, scalar_of
from ktc.ir.walk import all_exprs, declared, rename, walk
from ktc.search.verification.job import Outcome
from ktc.search.verification.verdict import Failure

from .helper_meanings import with_meanings
from .normal_form import normal
from .opencl_small_floats import TakenForFloat, by_their_bits, plainly, with_small_floats
from .opencl_storage import as_printed, is_flag, with_atomics

READABLE = ("cuda", "hip", "opencl")
"""Languages that the front-end reads."""


def read_back(code: Emitted) -> Kernel:
    """The kernel that the printed text denotes, launched and parametrised as the printed kernel is.

    Raises:
        KtcError: the front-end refuses the text; E-READ-BACK when its signature is not the printed kernel's.
    """
    from ktc.ir.frontend import load

    name = f"<{code.target} text of {code.entry}>"
    opencl = code.target.startswith("opencl")
    text = with_small_floats(with_atomics(code.text)) if opencl else with_meanings(code.text)
    read = load(text, name=name, kernel=code.entry, dialect=code.target)
    printed = code.kernel
    names = _sized_at_launch(printed, read)
    signature = [p for p in printed.params if not p.host]
    given = [p for p in read.params if not p.host]
    if len(given) != len(signature):
        message = f"the printed text takes {len(given)} parameters, the kernel {len(signature)}"
        raise KtcError("E-READ-BACK", message, read.loc)
    params, flags = [], set()
    theirs, rows = iter(given), {b: (pitch, read.param(pitch.name)) for b, pitch in row_pitches(read).items()}
    apart: list[Param] = []
    for p in printed.params:
        if not p.host:
            other = next(theirs).sym
            if flag := opencl and is_flag(p.sym, other):
                flags.add(p.sym)
            sym = p.sym if flag else replace(p.sym, type=other.type)
            names[other] = sym
            p = replace(p, sym=sym)
            if other in rows and p.rows:  # nothing that is passed says it
                pitch, host = rows[other]
                names[pitch] = fresh(p.rows, pitch.type)
                apart.append(replace(host, sym=names[pitch]))
        params.append(p)
    body = rename(plainly(read.body) if opencl else read.body, names)
    if opencl:
        body = as_printed(body, flags)
    return printed.with_(params=(*params, *apart), body=body, knobs=printed.knobs, loc=read.loc)


def _sized_at_launch(printed: Kernel, read: Kernel) -> dict[Sym, Sym]:
    """The array in dynamic shared memory as it was read, and the same with the extent that the printed one has: the
    text of a kernel does not say it, its launch does."""
    mine, theirs = ([s.sym for s in walk(k.body) if isinstance(s, Alloc) and s.dynamic] for k in (printed, read))
    if len(mine) != 1 or len(theirs) != 1:
        return {}
    a, b = mine[0].type, theirs[0].type
    assert isinstance(a, Array) and isinstance(b, Array)
    return {theirs[0]: fresh(theirs[0].name, replace(b, shape=a.shape))}


def parse_back(kernel: Kernel, target: str) -> Outcome:
    """Print a lowered ``kernel``, knobs bound, read the text, compare. ``skip`` where the front-end cannot read it."""
    try:
        code = emit(kernel, target)
    except KtcError as e:
        return Outcome("skip", f"not printed for {target}: {e.message}")
    other = restructured(code.kernel, target)
    if other:
        return Outcome("skip", f"the {target} text stores {other} its own way: not compared")
    try:
        read = read_back(code)
    except TakenForFloat as e:
        return Outcome("fail", e.message, Failure("parse-back", e.message))
    except KtcError as e:
        return Outcome("skip", f"the {target} text cannot be read back: {e.message}")
    if _assembly(read) and not _assembly(code.kernel):
        return Outcome("skip", f"the {target} text has assembly for what the IR has a name for: not compared")
    passed = any(takes_addresses(code.kernel, p) for p in code.kernel.params)
    other = difference(code.kernel, as_tables(read) if passed else read)
    if not other:
        return Outcome("pass", f"the {target} text denotes this program")
    failure = Failure("parse-back", f"the {target} text denotes another program: {other}", statement=other)
    return Outcome("fail", failure.message, failure)


def _assembly(kernel: Kernel) -> bool:
    return any(isinstance(s, InlineAsm) for s in walk(kernel.body))


def restructured(kernel: Kernel, target: str) -> str:
    """What of ``kernel`` the language keeps in other types or places than the IR does; '' if nothing."""
    dynamic = [s.sym.type for s in walk(kernel.body) if isinstance(s, Alloc) and s.dynamic]
    if len(dynamic) > 1 or any(len(t.shape) > 1 for t in dynamic if isinstance(t, Array)):
        return "several arrays in dynamic shared memory" if len(dynamic) > 1 else "a table in dynamic shared memory"
    if dynamic and target == "opencl" and any(isinstance(e, Cast) and e.style == "bit" for e in all_exprs(kernel.body)):
        return "dynamic shared memory in several types"
    if target == "opencl":
        return next(iter(by_their_bits(kernel)), "")
    types = {scalar_of(s.type) for s in symbols((tuple(p.sym for p in kernel.params), kernel.body)) if _typed(s.type)}
    small = sorted(t.name for t in types & BITS[target])
    return small[0] if small else ""


BITS = {
    "cuda": frozenset({E4M3, E5M2}),
    "hip": frozenset({BF16, E4M3, E5M2}),
}
"""Types that a language keeps as bits with functions of the emitter's around them, and no rule undoes it."""


def _typed(t: object) -> bool:
    return isinstance(t, Scalar | Vec | Ptr | Array)


def difference(printed: Kernel, read: Kernel) -> str:
    """Where the normal forms of two kernels part, as 'printed' against 'read'; '' if they are one."""
    a, b = normal(printed), normal(read)
    if a == b:
        return ""
    mine, theirs = (print_kernel(_numbered(k)).splitlines() for k in (a, b))
    pairs = zip_longest(mine, theirs, fillvalue="")
    x, y = next(((x, y) for x, y in pairs if x != y), ("types", "other types"))
    return f"'{x.strip()}' is printed as '{y.strip()}'"


def _numbered(kernel: Kernel) -> Kernel:
    """Variables named by number, so that listings differ where programs do."""
    body = {s: fresh(f"v{k}", s.type) for k, s in enumerate(dict.fromkeys(declared(kernel.body)))}
    return kernel.with_(body=rename(kernel.body, body))


__all__ = ["READABLE", "difference", "parse_back", "read_back", "restructured"]
