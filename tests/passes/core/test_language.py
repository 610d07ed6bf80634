# ruff: noqa: E501
"""The pipeline language: values, exact round trip, errors with a caret, limits."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktc.ir.diagnostics import KtcError
from ktc.ir.nodes import LEVELS
from ktc.passes.core.base import DistSpec, KnobRef, LevelSpec, Script, Step
from ktc.passes.core.language import parse_script

DESIGN = "raise | distribute{loop=i map=[vec $V, thread.x $T, seq]} | unroll{loop=k factor=$U:1,2,4,8} | fast-math{fns=exp,div}"


def args(text: str) -> dict:
    return parse_script(text).steps[0].kwargs


def test_the_design_listing() -> None:
    s = parse_script(DESIGN)
    assert [x.name for x in s.steps] == ["raise", "distribute", "unroll", "fast-math"]
    levels = (LevelSpec("vec", KnobRef("V")), LevelSpec("thread", KnobRef("T"), "x"), LevelSpec("seq"))
    assert s.steps[1].kwargs == {"loop": "i", "map": DistSpec(levels)}
    assert s.steps[2].kwargs["factor"] == KnobRef("U", (1, 2, 4, 8))
    assert s.steps[3].kwargs["fns"] == ("exp", "div")
    assert str(s) == DESIGN


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a{x=3}", 3),
        ("a{x=-3}", -3),
        ("a{x=loop:k}", "loop:k"),
        ("a{x=i.2}", "i.2"),
        ("a{x=thread-block}", "thread-block"),
        ("a{x=$V}", KnobRef("V")),
        ("a{x=$V=4}", KnobRef("V", None, 4)),
        ("a{x=$V:1,2,4=2}", KnobRef("V", (1, 2, 4), 2)),
        ("a{x=$V:(1,2)}", KnobRef("V", (1, 2))),
        ("a{x=(i,j)}", ("i", "j")),
        ("a{x=i,j}", ("i", "j")),
        ("a{x=i x=j}", ("i", "j")),
        ("a{x=(i)}", ("i",)),
        ("a{x=()}", ()),
        ("a{x=$A:(1,2),3}", (KnobRef("A", (1, 2)), 3)),
        ("a{x=[vec 4, thread.x d, block.x]}", DistSpec((LevelSpec("vec", 4), LevelSpec("thread", "d", "x"), LevelSpec("block", None, "x")))),
    ],
)  # fmt: skip
def test_values(text: str, value: object) -> None:
    assert args(text) == {"x": value}
    assert parse_script(str(parse_script(text))) == parse_script(text)


def test_commas_may_separate_arguments() -> None:
    assert args("a{x=1, y=exp,div, z=2}") == {"x": 1, "y": ("exp", "div"), "z": 2}


def test_files_span_lines_and_carry_comments() -> None:
    s = parse_script(
        "# tuned by hand\nraise   // first\n| unroll{loop=k\n    factor=4}\nwhere V % 2 == 0 || V == 1 # even\nwhere T <= 256\n"
    )
    assert [x.name for x in s.steps] == ["raise", "unroll"] and s.where == ("V % 2 == 0 || V == 1", "T <= 256")
    assert s.steps[1].loc.line == 3  # type: ignore[union-attr]


def test_where_may_stand_between_steps() -> None:
    s = parse_script("a | where V < 4 | b where W < 2 | c")
    assert [x.name for x in s.steps] == ["a", "b", "c"] and s.where == ("V < 4", "W < 2")


def test_an_empty_script_has_no_steps() -> None:
    assert parse_script("  # nothing\n") == Script(())


@pytest.mark.parametrize(
    ("text", "line", "col"),
    [
        ("raise |", 1, 8),
        ("unroll{loop=}", 1, 13),
        ("unroll{loop=k", 1, 14),
        ("unroll loop=k", 1, 8),
        ("a\n| b{x=[disk 4]}", 2, 8),
        ("a{x=1} | B", 1, 10),
        ("a{x=$}", 1, 5),
        ("a | where", 1, 5),
        ("a{x=$V:1,1}", 1, 5),
        ("a;b", 1, 2),
    ],
)
def test_errors_have_a_place_and_a_caret(text: str, line: int, col: int) -> None:
    with pytest.raises(KtcError) as caught:
        parse_script(text, "p.ktp")
    e = caught.value
    assert (e.code, e.loc.line, e.loc.col) == ("E-SCRIPT-SYNTAX", line, col)  # type: ignore[union-attr]
    assert "^" in str(e)


@pytest.mark.parametrize(
    "text",
    ["a" * 70000, "|".join("a" * 300), "a{x=" + "(" * 20 + ")" * 20 + "}", "a{x=99999999999}", "a{x=" + "9" * 5000 + "}",
     "a{" + " ".join(f"k{i}=1" for i in range(80)) + "}", "a{x=$V:" + ",".join(map(str, range(500))) + "}"],
)  # fmt: skip
def test_hostile_scripts_meet_limits(text: str) -> None:
    with pytest.raises(KtcError) as caught:
        parse_script(text)
    assert caught.value.code == "E-SCRIPT-LIMIT"


def spelled(pattern: str) -> st.SearchStrategy[str]:
    """Words that match all of ``pattern``, which names ASCII alone: without saying so, tables of all Unicode are made."""
    return st.from_regex(pattern, fullmatch=True, alphabet=ASCII)


ASCII = string.ascii_letters + string.digits + "_:-"
words = spelled(r"[a-z][a-z0-9_]{0,6}(:[a-z][a-z0-9_]{0,3})?").filter(lambda w: w != "where")
ints = st.integers(-(1 << 31) + 1, 1 << 30)
names = spelled(r"[A-Z][A-Z0-9_]{0,4}")
domains = st.none() | st.lists(ints, min_size=1, max_size=4, unique=True).map(tuple)
knobs = st.builds(KnobRef, names, domains, st.none() | ints)


@st.composite
def levels(draw) -> LevelSpec:
    kind = draw(st.sampled_from(LEVELS))
    axis = draw(st.sampled_from("xyz")) if kind in ("thread", "block", "cluster") and draw(st.booleans()) else ""
    return LevelSpec(kind, draw(st.none() | ints | words | knobs), axis)


dists = st.lists(levels(), min_size=1, max_size=4).map(lambda x: DistSpec(tuple(x)))
atoms = ints | words | knobs | dists
values = atoms | st.lists(atoms | st.lists(atoms, max_size=2).map(tuple), max_size=3).map(tuple)
keys = spelled(r"[a-z][a-z_]{0,5}")
steps = st.builds(
    lambda name, kw: Step(name, tuple(kw.items())),
    spelled(r"[a-z][a-z0-9-]{0,8}").filter(lambda w: w != "where" and not w.startswith("where-")),
    st.dictionaries(keys, values, max_size=3),
)
scripts = st.builds(
    Script,
    st.lists(steps, max_size=4).map(tuple),
    st.lists(st.sampled_from(("V < 4", "A || B == 2")), max_size=2).map(tuple),
)


@settings(max_examples=150, deadline=None)
@given(scripts)
def test_scripts_print_and_parse_back(s: Script) -> None:
    assert parse_script(str(s)) == s


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab{}=$V:1,2[]() |#\nwhere vec.x-_", max_size=60))
def test_any_text_parses_or_is_an_error_with_a_place(text: str) -> None:
    try:
        s = parse_script(text)
    except KtcError as e:
        assert e.loc is not None and e.code.startswith("E-SCRIPT")
    else:
        assert parse_script(str(s)) == s
