"""Arguments that a pass declares as a dataclass: what scripts may write for them, and what they are told otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes import (
    Arrays,
    DistSpec,
    Factor,
    KnobRef,
    KnobSpec,
    Loop,
    Loops,
    Pass,
    Place,
    Refusal,
    Refused,
    Result,
    Site,
    Size,
    allowed,
    attempted,
    knob,
    knobs,
    option,
    required,
    rest,
)  # fmt: skip
from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.language import parse_script
from ktc.passes.core.script import Arg, spelled

TM, TN = KnobSpec("TM", (8, 16), "rows"), KnobSpec("TN", (8, 16), "columns")


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the loop")
    factor: Factor | Literal["full"] = knob("U", (1, 2, 4), "copies", code="E-FACTOR", most=64)
    size: Size = knob("S", (8, 16), "elements", wish=16)
    copy: Literal["flat", "rows"] = option("flat", "the order of a copy")
    width: Literal[1, 2, 4] | None = option(None, "lanes")
    tile: tuple[Size, Size] = knobs("rows and columns", TM, TN)
    fns: tuple[str, ...] = option(("all",), "functions", words=("exp", "log", "all"))
    count: int = option(0, "rounds", least=0, most=8)
    ahead: bool = option(False, "whether to look ahead")
    map: DistSpec = option(DistSpec.of("thread.x $T", "seq"), "levels")
    at: int | Place = option(1, "where")
    array: Arrays | None = option(None, "the array")
    inner: Loop | None = option(None, "the loop inside")


class Example(Pass[Arguments]):
    name = "example"
    summary = "takes every kind of argument"

    def sites(self, kernel: Kernel) -> list[Site]:
        return [Site(self.step(loop="i"))]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        kernel, _ = args.size.declared(kernel, self.name)
        return Result(kernel)


EXAMPLE = Example()
KERNEL = parse_kernel("kernel k(out: f32*, n: i32)\n  par i in 0..n @ [thread.x 64, seq]\n    out[i] = 0.0\n")


def given(text: str) -> dict[str, Arg]:
    (step,) = parse_script(f"example{{loop=i {text}}}").steps
    return step.kwargs


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("", "loop", Loops("i")),
        ("", "factor", Size(KnobRef("U"), KnobSpec("U", (1, 2, 4), "copies"))),
        ("factor=full", "factor", "full"),
        ("factor=8", "factor", Size(8, KnobSpec("U", (1, 2, 4), "copies"))),
        ("factor=$V:1,2", "factor", Size(KnobRef("V", (1, 2)), KnobSpec("U", (1, 2, 4), "copies"))),
        ("size=n", "size", Size("n", KnobSpec("S", (8, 16), "elements", 16))),
        ("copy=rows", "copy", "rows"),
        ("width=2", "width", 2),
        ("tile=4,$N", "tile", (Size(4, TM), Size(KnobRef("N"), TN))),
        ("fns=exp,log", "fns", ("exp", "log")),
        ("fns=exp", "fns", ("exp",)),
        ("count=8", "count", 8),
        ("ahead=yes", "ahead", True),
        ("map=[vec 4, seq]", "map", DistSpec.of("vec 4", "seq")),
        ("at=3", "at", 3),
        ("at=stmt:12", "at", Place("stmt:12")),
        ("array=array:x", "array", Arrays("array:x")),
        ("inner=k_1", "inner", Loop("k_1")),
        ("loop=j", "loop", Loops(("i", "j"))),
        ("array=x,array:y", "array", Arrays(("x", "array:y"))),
    ],
)
def test_what_a_script_writes_becomes_the_fields_value(text: str, name: str, value: object) -> None:
    read = getattr(EXAMPLE.read(given(text)), name)
    assert read == value


@pytest.mark.parametrize(
    ("text", "code", "why", "hint"),
    [
        ("factor=65", "E-FACTOR", "factor is a number from 1 to 64, a knob or full, not 65", ""),
        ("factor=fuul", "E-FACTOR", "not 'fuul'", "did you mean 'full'?"),
        ("size=0", "E-ARG-RANGE", "size is a number, a knob or a parameter's name, not 0", ""),
        ("size=[seq]", "E-ARG-TYPE", "size is a number, a knob or a parameter's name, not [seq]", ""),
        ("copy=row", "E-ARG-RANGE", "copy is flat or rows, not 'row'", "did you mean 'rows'?"),
        ("width=3", "E-ARG-RANGE", "width is 1, 2 or 4, not 3", ""),
        ("tile=4", "E-ARG-RANGE", "tile is a list of 2, each a number", ""),
        ("fns=lgo", "E-ARG-RANGE", "fns cannot be 'lgo'", "did you mean 'log'? there are: exp, log, all"),
        ("count=9", "E-ARG-RANGE", "count is a number from 0 to 8, not 9", ""),
        ("count=$K", "E-ARG-TYPE", "count is a number from 0 to 8, not $K", ""),
        ("ahead=maybe", "E-ARG-RANGE", "ahead is yes or no, not 'maybe'", ""),
        ("map=4", "E-DIST-LEVELS", "map is a list of levels", ""),
        ("at=$A", "E-PLACE", "at is a number or a place, not $A", ""),
        ("array=3", "E-PLACE", "array is an array, not 3", ""),
        ("inner=3", "E-PLACE", "inner is a loop, not 3", ""),
    ],
)
def test_what_does_not_fit_is_refused_by_name_and_value(text: str, code: str, why: str, hint: str) -> None:
    refused = EXAMPLE.run(KERNEL, given(text))
    assert isinstance(refused, Refused) and refused.code == code
    assert why in refused.why and hint in refused.hint


def test_what_is_missing_is_refused_with_the_signature() -> None:
    refused = EXAMPLE.run(KERNEL)
    assert isinstance(refused, Refused) and refused.code == "E-ARG-MISSING"
    assert refused.hint.startswith("example takes: loop, [factor], [size]")


def test_a_parameter_is_a_size_only_if_the_kernel_has_it() -> None:
    assert isinstance(EXAMPLE.run(KERNEL, {"loop": "i", "size": "n"}), Result)
    refused = EXAMPLE.run(KERNEL, {"loop": "i", "size": "m"})
    assert isinstance(refused, Refused) and refused.code == "E-ARG-NAME" and "out, n" in refused.hint


def test_a_size_declares_its_knob() -> None:
    done = EXAMPLE.run(KERNEL, {"loop": "i"})
    assert isinstance(done, Result)
    (decl,) = done.kernel.knobs
    assert (decl.name, decl.domain, decl.default, decl.doc, decl.owner) == ("S", (8, 16), 16, "elements", "example")


def test_help_follows_from_the_declaration() -> None:
    shown = {p.name: (p.required, p.default, p.takes) for p in EXAMPLE.parameters}
    assert shown["loop"] == (True, "", "a loop, several, or i.* for all called i")
    assert shown["factor"] == (False, "$U", "a number from 1 to 64, a knob or full")
    assert shown["tile"][1] == "$TM,$TN" and shown["ahead"] == (False, "no", "yes or no")
    assert shown["map"][1] == "[thread.x $T, seq]" and shown["fns"][1] == "all" and shown["inner"][1] == ""
    assert EXAMPLE.knobs == ("U: 1,2,4: copies", "S: 8,16: elements", "TM: 8,16: rows", "TN: 8,16: columns")
    assert [p.name for p in EXAMPLE.parameters if p.names_a_place] == ["loop", "at", "array", "inner"]


def test_the_rest_goes_to_one_field() -> None:
    @dataclass(frozen=True)
    class Any:
        values: tuple[tuple[str, Arg], ...] = rest("parameter=value")

    class Named(Pass[Any]):
        name, summary = "named", "takes what it is given"

    assert Named().read({"d": 4, "n": "x"}).values == (("d", 4), ("n", "x"))
    assert [p.name for p in Named().parameters] == ["*"]


def test_a_step_prints_and_changes() -> None:
    step = EXAMPLE.step(loop="i", map=DistSpec.of("vec $V", "thread.x 128", "seq"))
    assert str(step) == "example{loop=i map=[vec $V, thread.x 128, seq]}"
    assert parse_script(str(step)).steps == (step,)
    assert str(step.with_(copy="rows", loop="j")) == "example{loop=j map=[vec $V, thread.x 128, seq] copy=rows}"


@pytest.mark.parametrize("name", list(PASSES))
def test_every_default_can_be_written(name: str) -> None:
    """What help shows as a default reads back as that very default."""
    p = PASSES[name]
    must: dict[str, Arg] = {a.name: _any_value(a.takes) for a in p.parameters if a.required}
    plain = p.read(must)
    for a in p.parameters:
        if not a.default or a.default in ("16 bytes", "a knob each"):  # these depend on the kernel
            continue
        (step,) = parse_script(f"{name}{{{a.name}={a.default}}}").steps
        assert getattr(p.read({**must, **step.kwargs}), a.name) == getattr(plain, a.name)
        assert spelled(step.kwargs[a.name]) == a.default


@pytest.mark.parametrize("name", list(PASSES))
def test_every_argument_refuses_what_it_cannot_be(name: str) -> None:
    p = PASSES[name]
    must: dict[str, Arg] = {a.name: _any_value(a.takes) for a in p.parameters if a.required}
    for a in p.parameters:
        if a.name == "*":
            continue
        wrong: Arg = 3 if "levels" in a.takes else DistSpec.of("seq")
        refused = attempted(p.read, {**must, a.name: wrong})
        assert isinstance(refused, Refused) and refused.code.startswith("E-") and a.name in refused.why


def _any_value(takes: str) -> Arg:
    if "levels" in takes:
        return DistSpec.of("seq")
    return 8 if takes.startswith("a number") else "auto" if takes.startswith("auto") else "i"


def test_a_refusal_is_a_value_outside_a_pass() -> None:
    def refusing(n: int) -> int:
        if n < 0:
            raise Refusal("E-NEGATIVE", f"{n} is negative", hint="take another")
        return n

    assert attempted(refusing, 3) == 3 and allowed(refusing, 3) and not allowed(refusing, -3)
    assert attempted(refusing, -3) == Refused("E-NEGATIVE", "-3 is negative", (), "take another")
    with pytest.raises(ValueError, match="invalid literal"):
        attempted(int, "x")
