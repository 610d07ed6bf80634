"""Random scripts with random arguments: refused with a code, or a kernel that still means the same.

Arguments come from a small pool of plausible and implausible values, so that most scripts meet a refusal somewhere and
the rest combine passes in ways that nobody wrote down. What applies is bound to random knob values, lowered to threads,
and compared with the original in exact integers.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.interp import equivalent
from ktc.ir.kernel import Kernel, bind
from ktc.ir.text import parse_kernel
from ktc.ir.verifier import verify
from ktc.ir.walk import walk
from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from tests.passes.checks import arguments
from tests.passes.parallel_sources import RMS, ROWMAX, SGEMM

SOURCES = {
    RMS: {"n": 3, "d": 16, "eps": 1.0},
    ROWMAX: {"n": 3, "d": 13},
    SGEMM: {"M": 8, "N": 16, "K": 8},
}
SIZES = ("1", "2", "3", "4", "8", "16", "32", "$A", "$B:2,4", "$C=2", "64", "d", "full")
LEVELS = ("vec", "unroll", "seq", "lane", "warp", "thread.x", "thread.y", "thread.z", "block.x", "block.y")
POOLS = {
    "where": ("registers", "shared"),
    "strategy": ("auto", "serial", "shuffle", "shared"),
    "tail": ("guard", "exact"),
    "loads": ("all", "none", "x", "A,B"),
    "stores": ("all", "none", "x", "C"),
    "fns": ("all", "exp", "div"),
    "load": ("ldg", "cs"),
    "store": ("cs", "cg"),
}


def argument(draw, name: str, kernel: Kernel) -> str:
    pick = lambda options: draw(st.sampled_from(tuple(options)))  # noqa: E731
    loops = [s.var.name for s in walk(kernel.body) if hasattr(s, "var")] or ["i"]
    if name == "loop":
        return pick(loops)
    if name == "loops":
        return pick((pick(loops), f"{pick(loops)},{pick(loops)}"))
    if name == "sizes":
        return pick((pick(SIZES), f"{pick(SIZES)},{pick(SIZES)}"))
    if name == "map":
        inner = [f"{pick(LEVELS)} {pick(SIZES)}" for _ in range(draw(st.integers(0, 2)))]
        return f"[{', '.join([*inner, pick(('seq', 'block.x', 'thread.x', pick(LEVELS)))])}]"
    return pick(POOLS.get(name, SIZES))


def step(draw, kernel: Kernel) -> str:
    name = draw(st.sampled_from([p for p in PASSES if p not in ("raise", "specialize", "fast-math")]))
    given_ = [s.name for s in PASSES[name].parameters if s.required or draw(st.booleans())]
    args = " ".join(f"{a}={argument(draw, a, kernel)}" for a in given_)
    return f"{name}{{{args}}}" if args else name


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_applies_means_the_same(data: st.DataObject) -> None:
    source = data.draw(st.sampled_from(tuple(SOURCES)))
    before = now = parse_kernel(source)
    for _ in range(data.draw(st.integers(1, 4))):
        try:
            done = apply_script(now, parse_script(step(data.draw, now)))
        except KtcError as e:
            assert e.code.startswith("E-")
            continue
        assert done.refused is None or (done.kernel is now and done.refused.code.startswith("E-"))
        now = done.kernel
    try:
        bound = bind(now, {k.name: data.draw(st.sampled_from(k.domain)) for k in now.knobs if k.value is None})
        lowered = materialise(bound)
    except KtcError as e:
        assert e.code.startswith(("E-KNOB", "E-LOWER")), e
        return
    assert verify(lowered) == []
    sizes = SOURCES[source]
    facts = [evaluate(a.expr, {**sizes, **bound.knob_values}) for a in bound.assumptions]  # type: ignore[dict-item]
    if all(f is None or f for f in facts):
        found = equivalent(before, lowered, [arguments(before, 600, **sizes)], ("int",))
        too_long = found is not None and found.finding is not None and found.finding.kind == "fuel"  # a huge unroll
        assert found is None or too_long, (str(found), now.trace)
