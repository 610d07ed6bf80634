# ruff: noqa: E501
"""Running scripts: all or nothing, verified step by step, shared knobs, constraints, places, plug-in passes."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, bind
from ktc.ir.nodes import For, Par, Return
from ktc.ir.text import parse_kernel, print_expr
from ktc.passes.core import catalogue, pipeline
from ktc.passes.core.base import KnobRef, Pass, Refused, Result
from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.knobs import declare_knob
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import PassBug, apply_script, sites
from ktc.passes.core.places import find_places, resolve_place
from ktc.passes.core.refusals import attempted
from tests.passes.checks import applied, refused

COPY = parse_kernel("""\
kernel copy(out: f32* restrict, in: f32 const* restrict, n: i32)
  launch grid(1) block(64)
  par i in 0..n @ [thread.x 64, seq]
    out[i] = in[i]
  array As: shared f32[4]
  for i in 0..n
    As[0] = in[i]
  for k in 0..n
    As[0] = in[k]
""")


def run(script: str, kernel: Kernel = COPY) -> pipeline.Applied:
    return apply_script(kernel, parse_script(script))


def test_steps_are_recorded_as_text_that_replays() -> None:
    k = applied(COPY, "unroll{loop=k factor=$U:1,2,4} | licm where U >= 2")
    assert k.trace == ("unroll{loop=k factor=$U:1,2,4}", "licm", "where U >= 2")


def test_a_refusal_gives_back_the_same_object_and_the_step() -> None:
    done = run("unroll{loop=k factor=4} | unroll{loop=nothing}")
    assert done.kernel is COPY and done.refused is not None and done.refused.code == "E-PLACE"
    assert done.step is not None and done.step.kwargs == {"loop": "nothing"}
    assert len(done.results) == 1


def test_missing_arguments_are_a_refusal() -> None:
    assert refused(COPY, "unroll").code == "E-ARG-MISSING"


@pytest.mark.parametrize(
    ("script", "code", "hint"),
    [
        ("unrol{loop=k}", "E-PASS-UNKNOWN", "did you mean 'unroll'?"),
        ("unroll{loop=k factr=2}", "E-PASS-ARG", "loop, [factor]"),
        ("licm where V < 2", "E-WHERE", ""),
        ("unroll{loop=k factor=$U} where U + 1", "E-WHERE", "compare"),
        ("unroll{loop=k factor=$U} where (U < 2", "E-WHERE", ""),
        ("unroll{loop=k factor=$U} where $W < 2", "E-WHERE", ""),
    ],
)
def test_scripts_that_name_what_does_not_exist_are_errors(script: str, code: str, hint: str) -> None:
    with pytest.raises(KtcError) as caught:
        run(script)
    assert caught.value.code == code and hint in caught.value.hint and caught.value.exit_code == 2


def test_a_knob_used_twice_is_shared_and_its_domains_intersect() -> None:
    k = applied(COPY, "unroll{loop=i_1 factor=$U:1,2,4} | unroll{loop=k factor=$U:2,4,8}")
    assert [(d.name, d.domain) for d in k.knobs] == [("U", (2, 4))]
    assert refused(COPY, "unroll{loop=i_1 factor=$U:1} | unroll{loop=k factor=$U:2}").code == "E-KNOB-EMPTY"


def test_a_bound_knob_outside_its_domain_is_refused() -> None:
    got = attempted(declare_knob, COPY, KnobRef("V", (1, 2), 4), (1, 2), "", "")
    assert isinstance(got, Refused) and got.code == "E-KNOB-DOMAIN"


def test_where_constrains_the_binding() -> None:
    k = applied(COPY, "unroll{loop=k factor=$U} where U >= 4")
    assert bind(k, {"U": 4}).knob_values == {"U": 4}
    with pytest.raises(KtcError) as caught:
        bind(k, {"U": 2})
    assert caught.value.code == "E-KNOB-INFEASIBLE" and "$U >= 4" in caught.value.message


class Broken(Pass):
    name = "broken"
    summary = "puts a return into every parallel loop"

    def apply(self, kernel: Kernel, args: object) -> Result:
        body = tuple(dataclasses.replace(s, body=(*s.body, Return())) if isinstance(s, Par) else s for s in kernel.body)
        return Result(kernel.with_(body=body))

    def sites(self, kernel: Kernel) -> list:
        return []


def test_a_pass_that_breaks_the_ir_is_named_with_both_listings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PASSES._loaded, "broken", Broken())
    monkeypatch.setitem(catalogue.ROWS, "broken", "-")
    with pytest.raises(PassBug) as caught:
        run("broken")
    text = str(caught.value)
    assert "the pass 'broken' broke the kernel" in text and "V-LOOP" in text
    assert text.count("kernel copy(") == 2


def test_a_problem_that_was_there_before_is_not_blamed_on_the_pass() -> None:
    bad = COPY.with_(body=(*COPY.body, For(**_break_outside())))
    assert run("unroll{loop=k factor=2}", bad).refused is None


def _break_outside() -> dict:
    k = parse_kernel("kernel k(in: f32 const*, n: i32)\n  for q in 0..n\n    in[0] = 1.0\n")
    loop = k.body[0]
    assert isinstance(loop, For)
    return {f.name: getattr(loop, f.name) for f in dataclasses.fields(loop)}


def test_every_row_of_the_catalogue_loads_and_documents_itself() -> None:
    for name, p in PASSES.items():
        assert p.name == name and p.summary
        assert all(spec.doc for spec in p.parameters)
    assert "nonsense" not in PASSES and len(PASSES) == len(list(PASSES))


def test_every_suggested_site_applies() -> None:
    found = sites(COPY)
    assert {"unroll", "cache-hints", "distribute"} <= {name for name, s in found.items() if s}
    for suggestions in found.values():
        for s in suggestions:
            assert run(str(s.step)).refused is None, str(s.step)


def test_plugins_come_through_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    good = EntryPoint("third-party", f"{__name__}:Broken", "ktc.passes")
    bad = EntryPoint("absent", "no_such_module:Pass", "ktc.passes")
    fresh = catalogue.Catalogue()
    fresh.__dict__["_entry_points"] = {"third-party": good, "absent": bad}
    assert isinstance(fresh["third-party"], Pass) and "absent" in fresh
    with pytest.raises(KtcError) as caught:
        fresh["absent"]
    assert caught.value.code == "E-PASS-PLUGIN" and caught.value.exit_code == 3


NEST = parse_kernel("""\
kernel nest(out: f32* restrict, n: i32)
  par row in 0..n @ [thread.y 8, block.y]
    par col in 0..n @ [thread.x 8, block.x]
      out[row * n + col] = 0.0
""")


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("distribute{loop=col map=[thread.y 8, block.x]}", "E-DIST-NEST"),
        ("distribute{loop=col map=[thread.x 8, block.y]}", "E-DIST-NEST"),
        ("distribute{loop=col map=[thread.x 8, warp 4, block.x]}", "E-DIST-NEST"),
        ("distribute{loop=col map=[vec 8, thread.x 4, block.x]}", "E-DIST-VEC"),
        ("tile{loops=row sizes=8} | unroll{loop=row_tile factor=2}", "E-DIST-RAGGED"),
        ("distribute{loop=col map=[thread.x 256, block.x]}", "E-DIST-THREADS"),
        ("distribute{loop=col map=[thread.x $T:2048, block.x]}", "E-DIST-THREADS"),
        ("distribute{loop=col map=[vec 3, thread.x 8, block.x]}", "E-DIST-VEC"),
        ("distribute{loop=col map=[vec $V:2,3, thread.x 8, block.x]}", "E-DIST-VEC"),
    ],
)
def test_distributions_that_no_launch_has_are_the_scripts_fault(script: str, code: str) -> None:
    assert refused(NEST, script).code == code
    assert refused(NEST, script).locs


def test_assumptions_that_a_launcher_cannot_check_are_refused() -> None:
    ragged = parse_kernel("""\
kernel ragged(out: f32* restrict, ends: i32 const* restrict, n: i32)
  par i in 0..n @ [block.x]
    let end: i32 = ends[i]
    par j in 0..end @ [thread.x 8, seq]
      out[i * n + j] = 0.0
""")
    got = refused(ragged, "distribute{loop=j map=[thread.x 8, unroll 4]}")
    assert got.code == "E-DIST-UNCHECKED" and "'end'" in got.why


def test_a_tile_of_whole_vectors_rests_on_the_parameter_alone() -> None:
    got = applied(NEST, "tile{loops=col sizes=8} | vectorize{loop=col width=4}")
    assert [print_expr(a.expr) for a in got.assumptions] == ["n % 4 == 0"]
    assert refused(NEST, "tile{loops=col sizes=6} | vectorize{loop=col width=4}").code == "E-DIST-COVER"


def test_a_knob_with_some_room_is_left_to_the_constraints() -> None:
    assert applied(NEST, "distribute{loop=col map=[thread.x $T:64,2048, block.x]}").knobs[0].domain == (64, 2048)


# ------------------------------------------------------------------------------------------------------------ places


@pytest.mark.parametrize(
    ("place", "count"),
    [("k", 1), ("loop:k", 1), ("i", 1), ("i.*", 2), (("i", "k"), 2), ("i.1", 1), ("loop:i.2", 1), ("i_1", 1), ("array:As", 1),
     ("array:in", 1), ("stmt:9", 1)],
)  # fmt: skip
def test_places_are_found(place: str | tuple[str, ...], count: int) -> None:
    found = find_places(COPY, place)
    assert not isinstance(found, Refused) and len(found) == count


@pytest.mark.parametrize(
    ("place", "code", "hint"),
    [
        ("z", "E-PLACE", "there are: i, i_1, k"),
        ("i.*", "E-PLACE-AMBIGUOUS", "name one of them"),
        (("i", "k"), "E-PLACE-AMBIGUOUS", "name one of them"),
        ("i.3", "E-PLACE", "i_1"),
        ("array:Bs", "E-PLACE", "out, in, As"),
        ("box:z", "E-PLACE", "loop, array, stmt"),
        (3, "E-PLACE", ""),
    ],
)
def test_places_that_are_not_there_list_what_is(place: object, code: str, hint: str) -> None:
    got = resolve_place(COPY, place)  # type: ignore[arg-type]
    assert isinstance(got, Refused) and got.code == code and hint in got.hint


def test_every_pass_takes_the_names_that_are_printed() -> None:
    k = parse_kernel(
        "kernel k(o: f32* restrict, n: i32)\n" + "  par i in 0..n @ [thread.x 64, seq]\n    o[i] = 0.0\n" * 2
    )
    changed = applied(k, "distribute{loop=i_1 map=[thread.x 32, seq]} | unroll{loop=i_1 factor=2}")
    assert [str(s.dist[0].n.value) for s in changed.body if isinstance(s, Par)] == ["64", "32"]  # type: ignore[union-attr]
    assert [len(s.dist) for s in changed.body if isinstance(s, Par)] == [2, 3]


def test_places_survive_earlier_steps() -> None:
    k = applied(COPY, "tile{loops=k sizes=2} | unroll{loop=k factor=2} | unroll{loop=k_tile factor=4}")
    loops = {s.var.name: s.unroll for s in _fors(k)}
    assert loops["k"] == 2 and loops["k_tile"] == 4


def _fors(k: Kernel) -> list[For]:
    from ktc.ir.walk import walk

    return [s for s in walk(k.body) if isinstance(s, For)]
