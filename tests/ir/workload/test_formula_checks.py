"""What is wrong with a workload's formulas is said when the file is read, with a caret under it."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError, render
from ktc.ir.workload import Workload, formula_checks, reference, size_expressions

GOOD = """
[kernel]
source = "k.cu"
name = "bias"
[[args]]
name = "db"
dtype = "f32"
role = "out"
shape = ["cols"]
[[args]]
name = "dy"
dtype = "f32"
role = "in"
shape = ["rows", "2 * cols"]
[[args]]
name = "rows"
dtype = "i32"
role = "scalar"
value = "rows"
[launch]
grid = ["cols", "rows + 1"]
block = ["32"]
[assume]
facts = ["cols % 2 == 0 and rows > 0"]
[[scenario]]
name = "small"
sizes = { rows = 3, cols = 4 }
[reference]
t = "sum(dy, axis=0)"
db = "t[:cols] + t[cols:]"
"""


def mistake(tmp_path: Path, old: str, new: str) -> KtcError:
    assert old in GOOD
    path = tmp_path / "workload.toml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(KtcError) as e:
        Workload.load(path)
    return e.value


def test_the_file_without_mistakes_is_read(tmp_path: Path) -> None:
    (tmp_path / "workload.toml").write_text(GOOD)
    w = Workload.load(tmp_path)
    inputs = w.make_inputs({"rows": 3, "cols": 4})
    got = w.reference(inputs)
    assert got is not None
    both = inputs["dy"].astype(np.float64).sum(axis=0)
    np.testing.assert_allclose(got["db"], both[:4] + both[4:])


@pytest.mark.parametrize(
    ("old", "new", "under", "words"),
    [
        ("sum(dy, axis=0)", "dy.sum(axis=0)", ".sum", "'.' is not part"),
        ("sum(dy, axis=0)", "sum(dy, axsi=0)", "sum(", "axsi"),
        ("sum(dy, axis=0)", "sum(dz, axis=0)", "dz", "no value named 'dz'"),
        ("sum(dy, axis=0)", "1 + total(dy)", "total", "no function 'total'"),
        ("sum(dy, axis=0)", "sum(dy, axis=7)", "sum(", "axis 7"),
        ("sum(dy, axis=0)", "sum(dy, axis=0) if rows > 2 else dy", "sum(", "IfExp"),
        ("t[:cols] + t[cols:]", "t + t[:cols]", "t +", "broadcast"),
        ("t[:cols] + t[cols:]", "2 * t", "2 *", "shape"),
        ("t[:cols] + t[cols:]", "t[:cols] +", '"', "ends where a value"),
        ('db = "t', 'd8 = "t', "t[:", "no output"),
        ('db = "t', 'dy = "t', "t[:", "is an input"),
        ("2 * cols", "2 * colls", "colls", "no size"),
        ("rows + 1", "rows +* 1", "* 1", "a value should stand"),
        ("and rows > 0", "and rows > )", ")", "a value should stand"),
    ],
)
def test_a_mistake_has_its_place(tmp_path: Path, old: str, new: str, under: str, words: str) -> None:
    e = mistake(tmp_path, old, new)
    assert e.code == "E-WORKLOAD-FORMULA" and words in e.message and e.loc is not None
    line = (tmp_path / "workload.toml").read_text().splitlines()[e.loc.line - 1]
    assert line[e.loc.col - 1 :].startswith(under)
    assert "^" in render(e)


def test_a_place_in_a_text_of_several_lines(tmp_path: Path) -> None:
    e = mistake(tmp_path, '"sum(dy, axis=0)"', '"""\n  sum(dy,\n      axis=nought)"""')
    assert e.loc is not None
    lines = (tmp_path / "workload.toml").read_text().splitlines()
    assert lines[e.loc.line - 1][e.loc.col - 1 :].startswith("nought")


WORDS = ["in", "is", "lambda", "None", "def", "True", "False", "class", "pass", "import", "and", "or", "yield", "async"]


@pytest.mark.parametrize("word", WORDS)
def test_any_identifier_of_c_is_a_name(word: str) -> None:
    assert size_expressions.evaluate(f"2 * {word} + max({word}, 3)", {word: 7}) == 21
    assert reference.names(f"{word} * ({word} - 1)") == {word}
    got = reference.evaluate(
        f"sum({word}[:, newaxis] * {word}, axis=-1) + x[{word}]", {word: np.arange(3), "x": np.ones(3)}
    )
    np.testing.assert_array_equal(got, [1, 4, 7])


def test_words_that_join_are_told_from_names_by_where_they_stand() -> None:
    env = {"and": 1, "not": 0, "n": 2}
    assert size_expressions.evaluate("and and n > 1", env) == 1
    assert size_expressions.evaluate("not n > 5 and not", env) == 0
    assert size_expressions.evaluate("arg('not') + not * 2 + 3", env) == 3


@pytest.mark.parametrize(
    "text",
    ["1 + 2 * 3 - 4 // 3", "-2 ** 2 + 7", "2 ** -1", "2 ** 3 ** 2", "1 | 6 & 3 ^ 8", "(1 < 2) + 1", "7 % 4 * 2",
     "-7 // 2", "~5 + +3", "1e3 + .5 - 2. * 0x1F", "x[1:, ::2]", "x[::-1][0]", "x[:, -1]",
     "(x @ transpose(x))[0, 1]",
     "concatenate([x, 2 * x], axis=1)", "reshape(x, (2, -1, 1))[1]", "x[(0, 1)]", "x[0,]", "where(x > 1, x, 0)"],
)  # fmt: skip
def test_precedence_is_that_of_python(text: str) -> None:
    x = np.arange(6.0).reshape(2, 3)
    names = {"x": x, "transpose": np.transpose, "concatenate": np.concatenate, "reshape": np.reshape, "where": np.where}
    np.testing.assert_array_equal(reference.evaluate(text, {"x": x}), eval(text, {}, names))


@pytest.mark.parametrize(
    "text", ["1u", "0x", "a b", "f(x=1, 2)", "x[", "x[]", "", "a = 1", "(a", "'open", "a..b", "1__.2e"]
)
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(reference.FormulaError):
        reference.evaluate(text, {"a": 1, "b": 2, "x": np.ones(3)})


def test_formulas_are_judged_as_they_were_read(tmp_path: Path) -> None:
    """Who reads a file without them, and asks later, is answered for what was read, whatever has become of the file."""
    path = tmp_path / "workload.toml"
    path.write_text(GOOD.replace("t[:cols] + t[cols:]", "t[:cols] + u[cols:]"))
    w = Workload.load(path, formulas=False)
    line = 1 + path.read_text()[: path.read_text().index("u[cols:]")].count("\n")
    path.unlink()
    with pytest.raises(KtcError, match="no value named 'u'") as e:
        w.check_formulas()
    assert e.value.loc is not None and e.value.loc.line == line


def test_names_that_say_that_they_are_read() -> None:
    """From Python 3.13 on, every name that is made says so: no kernel with a reference could be verified there."""
    tree = reference.parse("silu(a[:, :4]) * b")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Subscript | ast.Tuple):
            node.ctx = ast.Load()
    formula_checks._judge(tree, {"a", "b"})
