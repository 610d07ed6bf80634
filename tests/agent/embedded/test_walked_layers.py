"""Stencils whose threads walk through layers: blocks take some of the layers each."""

from __future__ import annotations

from ktc.agent.embedded.ideas import RULES
from ktc.agent.embedded.nest_shapes import shape_of
from ktc.agent.embedded.walked_layers import side_by_side
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from tests.passes.checks import applied, differs

HEAD = """\
kernel k(o: f32* align 16 noalias, a: f32 const* align 16,
    nx: i32 range 3..64, ny: i32 range 3..64, nz: i32 range 3..64)
  launch grid(cdiv(nx - 2, 32), cdiv(ny - 2, 4)) block(32, 4)
  par y in 1..ny - 1 @ [thread.y 4, block.y]
    par x in 1..nx - 1 @ [thread.x 32, block.x]
      let at: i32 = y * nx + x
"""
WALK = """\
      var below: f32 = a[at]
      var here: f32 = a[at + nx * ny]
      for z in 1..nz - 1
        let above: f32 = a[at + (z + 1) * (nx * ny)]
        o[at + z * (nx * ny)] = here + {more} + below + above
        below = here
        here = above
"""
ROW = "a[at + z * (nx * ny) - 1] + a[at + z * (nx * ny) + 1] + a[at + z * (nx * ny) - nx] + a[at + z * (nx * ny) + nx]"


def walking(more: str = ROW) -> Kernel:
    return parse_kernel(HEAD + WALK.format(more=more))


def steps(k: Kernel) -> list[str]:
    (found,) = side_by_side(k)
    before, normal = found
    shape = shape_of(facts(normal, {"nx": 64, "ny": 64, "nz": 64}))
    return [before + s for name, applies, make in RULES if applies(shape) for s, _, _ in make(shape, 132)]


def test_layers_are_for_blocks_first_of_all() -> None:
    first, second, *_ = steps(walking())
    assert first.startswith("normalise | ") and "loop=z map=[unroll $UZ:(2,4), block.z] tail=cut" in first
    assert "loop=z map=[unroll $UZ:(2,4,8), block.z]" in second


def test_what_they_lead_to_computes_the_same() -> None:
    k = walking()
    after = applied(k, steps(k)[0])
    knobs = {"TX": 32, "TY": 2, "UY": 2, "UZ": 2}
    sizes = [{"nx": nx, "ny": ny, "nz": nz} for nx, ny, nz in ((3, 3, 3), (9, 5, 4))]
    assert differs(k, after, sizes, elements=9 * 5 * 6, knobs=knobs) is None


def test_a_sum_that_layers_add_to_is_no_such_walk() -> None:
    added = (
        HEAD + "      var s: f32 = 0.0\n      for z in 1..nz - 1\n        s += a[at + z * (nx * ny)]\n      o[at] = s\n"
    )
    assert not list(side_by_side(parse_kernel(added)))
    carried = HEAD + WALK.format(more=ROW).replace("here = above", "here = here * 0.5")
    assert not list(side_by_side(parse_kernel(carried)))
