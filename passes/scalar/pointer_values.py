"""What ``specialize`` makes of pointers: ``b`` is null, or is not, in all launches that the kernel is for.

before                                                        after specialize{b=null}
    var sum: f32 = !is_null(&b[0]) ? b[o] : 0.0                   assume is_null(&b[0]) origin guessed
                                                                  var sum: f32 = 0.0

The launcher tests it; other calls run the original kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.kernel import Assume, Kernel
from ktc.ir.null_pointers import known_nulls, null_test, pointers_asked_about, with_decided
from ktc.ir.text import print_expr
from ktc.ir.walk import assigned, used_in
from ktc.passes.core.refusals import Refusal
from ktc.passes.core.script import Arg

from .simplify import simplified

NONNULL = "nonnull"
_NULL: Mapping[Arg, bool] = {0: True, "null": True, "nullptr": True, NONNULL: False}


def bound_pointers(kernel: Kernel, values: Mapping[str, Arg]) -> Kernel:
    """``kernel`` for pointers that are null or not, as ``values`` says of each by name."""
    facts = known_nulls(kernel)
    known = {}
    for name, value in values.items():
        s = kernel.param(name).sym
        if not isinstance(value, int | str) or value not in _NULL:
            raise Refusal("E-SPECIALIZE-PARAM", f"'{name}' is a pointer: null or nonnull, and not {value!r}")
        if facts.get(s, _NULL[value]) != _NULL[value]:
            fact = print_expr(null_test(s, facts[s]))
            raise Refusal("E-SPECIALIZE-FACT", f"{name}={value} contradicts the assumption {fact}")
        known[s] = _NULL[value]
    asked = pointers_asked_about(kernel)
    for s in known:
        if s not in asked and s not in facts:
            raise Refusal("E-SPECIALIZE-NULL", f"the kernel does not ask whether '{s.name}' is null")
    body = simplified(kernel.with_(body=with_decided(kernel.body, known)))
    for s, null in known.items():
        if null and s in used_in(body) | assigned(body):
            raise Refusal("E-SPECIALIZE-NULL", f"the kernel accesses '{s.name}' even where it is null")
    added = (Assume(null_test(s, null), "guessed") for s, null in known.items() if s not in facts)
    return kernel.with_(body=body, assumptions=(*kernel.assumptions, *added))


__all__ = ["NONNULL", "bound_pointers"]
