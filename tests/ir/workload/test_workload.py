"""Workload files: what they promise, what they refuse, and that inputs and references are what they say."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError, render
from ktc.ir.workload import Workload, reference, size_expressions
from ktc.ir.workload.input_data import make_array
from tests.paths import KERNELS

LIBRARY = KERNELS
FILES = sorted(LIBRARY.glob("*/*/workload.toml"))

GOOD = """
[kernel]
source = "k.cu"
name = "scale"
template = { T = "float" }
[variants]
f16 = { T = "__half" }
[[args]]
name = "y"
dtype = "T"
shape = ["n", "2 * m"]
role = "out"
[[args]]
name = "x"
dtype = "T"
shape = ["n", "2 * m"]
role = "in"
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[args]]
name = "m"
dtype = "i32"
role = "scalar"
value = "m"
[[scenario]]
name = "one"
sizes = { n = 3, m = 5 }
[reference]
t = "x + 1"
y = "2 * t"
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "workload.toml"
    path.write_text(textwrap.dedent(text))
    return path


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.parent.name)
def test_every_library_workload_is_complete(path: Path) -> None:
    w = Workload.load(path)
    assert w.source.exists()
    assert any(s.heldout for s in w.scenarios), "no held-out sizes"
    assert sum(s.tuned for s in w.scenarios) >= 2, "a small and a large scenario to tune on"
    assert any(s.weight == 0 for s in w.scenarios), "no odd sizes to check"
    assert {a.name for a in w.args if a.role in ("out", "inout")} <= {name for name, _ in w.formulas}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.parent.name)
def test_references_fit_their_outputs(path: Path) -> None:
    w = Workload.load(path)
    for s in w.scenarios:
        if s.weight == 0:
            inputs = w.make_inputs(s.sizes)
            assert w.sizes_of(inputs) == dict(s.sizes)
            expected = w.reference(inputs)
            assert expected
            for name, value in expected.items():
                assert value.dtype == np.float64 and value.shape == inputs[name].shape


def test_silu_reference_against_a_loop() -> None:
    w = Workload.load(LIBRARY / "serving/silu_and_mul")
    inputs = w.make_inputs({"n": 2, "d": 3}, variant="f32")
    x = inputs["input"].astype(np.float64)
    for t in range(2):
        for i in range(3):
            want = x[t, i] / (1 + np.exp(-x[t, i])) * x[t, 3 + i]
            assert w.reference(inputs)["out"][t, i] == pytest.approx(want, rel=1e-15)


def test_merge_reference_gives_an_empty_side_no_weight() -> None:
    w = Workload.load(LIBRARY / "serving/merge_attn_states")
    inputs = w.make_inputs({"n": 1, "h": 2, "d": 4}, variant="f32")
    inputs["lse_a"][...] = [[np.inf], [0.5]]
    inputs["lse_b"][...] = [[1.5], [-np.inf]]
    got = w.reference(inputs)
    np.testing.assert_array_equal(got["out"][0, 0], inputs["v_b"][0, 0])
    np.testing.assert_array_equal(got["out"][0, 1], inputs["v_a"][0, 1])
    np.testing.assert_array_equal(got["out_lse"], [[1.5], [0.5]])


def test_rmsnorm_reference_normalises_the_unrounded_sum() -> None:
    w = Workload.load(LIBRARY / "serving/fused_add_rmsnorm")
    inputs = w.make_inputs({"n": 1, "hidden": 8})
    x = inputs["input"].astype(np.float64) + inputs["residual"].astype(np.float64)
    got = w.reference(inputs)
    np.testing.assert_array_equal(got["residual"], x)
    want = x / np.sqrt((x * x).mean() + inputs["eps"]) * inputs["weight"].astype(np.float64)
    np.testing.assert_allclose(got["input"], want, rtol=1e-14)


def test_inputs_are_deterministic_and_depend_on_the_seed(tmp_path: Path) -> None:
    w = Workload.load(write(tmp_path, GOOD))
    a, b, c = (w.make_inputs({"n": 3, "m": 5}, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(a["x"], b["x"])
    assert (a["x"] != c["x"]).any()
    assert np.isnan(a["y"]).all(), "outputs start as poison"
    assert a["x"].dtype == np.float32 and w.make_inputs({"n": 1, "m": 1}, "f16")["x"].dtype == np.float16
    assert a["n"] == 3 and isinstance(a["n"], int)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "e4m3", "e5m2"])
def test_exact_inputs_are_small_nonzero_integers(dtype: str) -> None:
    from ktc.ir.workload.input_data import EXACT_LIMIT, make_array

    values = make_array(dtype, (1000,), "normal", None, "x", 0, exact=True).astype(np.float64)
    assert (values == np.rint(values)).all() and (values != 0).all()
    assert np.abs(values).max() == EXACT_LIMIT.get(dtype, 4)


def test_exact_inputs_that_say_where_something_is_stay_what_they_are() -> None:
    from ktc.ir.workload.input_data import make_array

    for init in ("index", "offsets", "distinct", "arange"):
        plain, exact = (make_array("f32", (60,), init, (0, 70), "labels", 0, exact=e) for e in (False, True))
        assert exact.tolist() == plain.tolist() and exact.max() > 4
    table = make_array("f32", (60,), "sorted", None, "edges", 0, exact=True).tolist()
    assert table == sorted(table) and set(table) <= {-4, -3, -2, -1, 1, 2, 3, 4}


@pytest.mark.parametrize(
    ("bounds", "numbers"),
    [((0, 9.5), {1, 2, 3, 4}), ((-2, 0.5), {-2, -1}), ((0, 1), {-4, -3, -2, -1, 1, 2, 3, 4}), ((0.5, 2), {1, 2})],
)
def test_exact_inputs_are_within_their_range_where_that_has_several(bounds: tuple[float, float], numbers: set) -> None:
    from ktc.ir.workload.input_data import make_array

    assert set(make_array("f32", (500,), "uniform", bounds, "x", 0, exact=True).tolist()) == numbers


def test_large_arrays_have_no_equal_rows() -> None:
    from ktc.ir.workload.input_data import make_array

    made = make_array("f32", (1300, 4096), "normal", None, "x", 0, exact=False)
    rows = made.whole()
    assert (made.size, made.nbytes, made.shape) == (rows.size, rows.nbytes, rows.shape) and made.dtype == rows.dtype
    assert len(np.unique(rows[:, :8], axis=0)) == len(rows)


def test_a_range_without_numbers_is_refused() -> None:
    with pytest.raises(KtcError, match="the range of 'row' goes from 5 to 1"):
        make_array("i32", (8,), "ints", (5, 1), "row", 0, False)


def test_lse_inputs_have_infinities_of_both_signs() -> None:
    from ktc.ir.workload.input_data import make_array

    values = make_array("f32", (1000,), "lse", None, "x", 0, exact=False)
    assert (values == np.inf).any() and (values == -np.inf).any() and np.isfinite(values).mean() > 0.9


@pytest.mark.parametrize(
    ("change", "code", "line", "words"),
    [
        (("role = \"out\"", "role = \"outt\""), "E-WORKLOAD-SCHEMA", 12, "outt"),
        (("shape = [\"n\", \"2 * m\"]\nrole = \"in\"", "role = \"in\""), "E-WORKLOAD-SCHEMA", 14, "shape"),
        (("sizes = { n = 3, m = 5 }", "sizes = { n = \"x\" }"), "E-WORKLOAD-SCHEMA", 30, "integers"),
        (("[reference]", "[[scenario]]\nname = \"two\"\nsizes = { n = 3, k = 5 }\n[reference]"),
         "E-WORKLOAD-SCHEMA", 33, "'two' lacks m and has k besides"),
        (("name = \"m\"", "nmae = \"m\""), "E-WORKLOAD-SCHEMA", 24, "nmae"),
        (("name = \"m\"", "name = \"n\""), "E-WORKLOAD-SCHEMA", 24, "two args"),
        (("t = \"x + 1\"", "t = \"x +\""), "E-WORKLOAD-FORMULA", 32, "not an expression"),
        (("[variants]", "[variants"), "E-WORKLOAD-TOML", 6, "]"),
    ],
)  # fmt: skip
def test_mistakes_are_shown_where_they_are(
    tmp_path: Path, change: tuple[str, str], code: str, line: int, words: str
) -> None:
    assert change[0] in GOOD
    path = write(tmp_path, GOOD.replace(*change))
    with pytest.raises(KtcError) as e:
        Workload.load(path)
    assert e.value.code == code and words in render(e.value)
    assert e.value.loc and e.value.loc.file == str(path)
    assert e.value.loc.line == line


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(KtcError) as e:
        Workload.load(tmp_path / "nothing.toml")
    assert e.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "x.__class__",
        "(lambda: 1)()",
        "[i for i in x]",
        "open('/etc/passwd')",
        "exec('1')",
        "f'{x}'",
        "+".join(["x"] * 3000),
        "-" * 200 + "x",
    ],
)
def test_formulas_reach_nothing_but_arrays(text: str) -> None:
    with pytest.raises(KtcError):
        reference.evaluate(text, {"x": np.ones(3)})


def test_formula_helpers() -> None:
    x = np.linspace(-3, 3, 7)
    env = {"x": x, "a": np.arange(12.0).reshape(3, 4)}
    np.testing.assert_allclose(reference.evaluate("silu(x)", env), x / (1 + np.exp(-x)))
    np.testing.assert_allclose(reference.evaluate("softmax(a, axis=0)", env).sum(axis=0), 1.0)
    np.testing.assert_allclose(reference.evaluate("logsumexp(x)", env), np.log(np.exp(x).sum()))
    np.testing.assert_allclose(reference.evaluate("gelu(x)", env)[3:5], [0.0, 0.8413447460685429])
    np.testing.assert_array_equal(reference.evaluate("iota(a, 1) + 0 * a", env)[2], [0, 1, 2, 3])
    np.testing.assert_array_equal(reference.evaluate("a[1:, ::2]", env), env["a"][1:, ::2])


def test_integer_expressions_mean_what_c_means() -> None:
    env = {"n": 7, "d": 100}
    assert size_expressions.evaluate("min(d, 1024) * 2 - n // 2", env) == 197
    assert size_expressions.evaluate("cdiv(d, 32)", env) == 4
    assert size_expressions.evaluate("-n / 2", env) == -3
    assert size_expressions.evaluate("d % 8 == 4 and n > 0", env) == 1
    assert size_expressions.evaluate("n if d > 5 else d", env) == 7
    assert [size_expressions.evaluate("next_pow2(n)", {"n": n}) for n in (0, 1, 2, 3, 64, 65)] == [1, 1, 2, 4, 64, 128]
    assert size_expressions.evaluate("next_pow2(n << 40)", {"n": 3}) == 1 << 42
    assert [size_expressions.evaluate("ceil_log2(n)", {"n": n}) for n in (1, 2, 3, 64, 65)] == [0, 1, 2, 6, 7]
    assert size_expressions.evaluate("ceil_log2(n << 40)", {"n": 3}) == 42


@pytest.mark.parametrize("text", ["n / 0", "missing + 1", "n.bit_length()", "pow(n, 9)", "1.5", "n <"])
def test_bad_integer_expressions_are_refused(text: str) -> None:
    with pytest.raises(KtcError):
        size_expressions.evaluate(text, {"n": 7})


def test_a_source_elsewhere_is_named_without_detours(tmp_path: Path) -> None:
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "src").mkdir()
    path = tmp_path / "runs" / "one" / "workload.toml"
    path.write_text(GOOD.replace('"k.cu"', '"../../src/k.cu"'))
    assert Workload.load(path).source == tmp_path / "src" / "k.cu"
    (tmp_path / "far" / "two").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "two")  # whose parent is far/, not this folder
    linked = tmp_path / "link" / "workload.toml"
    linked.write_text(GOOD.replace('"k.cu"', '"../k.cu"'))
    (tmp_path / "far" / "k.cu").touch()
    assert Workload.load(linked).source.exists()


@pytest.mark.parametrize("init", ["index", "ints"])
def test_random_integers_of_a_range_have_its_ends_among_them(init: str) -> None:
    """What reads past the last row that an index may name does so for the largest index alone."""
    for n in (2, 3, 1000):
        values = make_array("i32", (n,), init, (3, 4096), "rows", n, exact=True)
        assert values.min() == 3 and values.max() == 4096
    assert make_array("i32", (1,), init, (3, 4096), "rows", 0, exact=True).tolist() == [4096]
    assert make_array("i32", (0,), init, (3, 4096), "rows", 0, exact=True).size == 0


@pytest.mark.parametrize("init", ["ints", "index", "distinct", "offsets"])
@pytest.mark.parametrize(("lo", "hi"), [(2**64 - 16, 2**64 - 1), (0, 2**64 - 1), (2**63 - 16, 2**63 - 1)])
def test_ranges_of_64_bits_are_whole(tmp_path: Path, init: str, lo: int, hi: int) -> None:
    """A marker of all ones, and a number on its other side: as a float, such a range ends beyond its type."""
    text = GOOD.replace('dtype = "T"\nshape = ["n", "2 * m"]\nrole = "in"', f"""dtype = "u64"
shape = ["n", "2 * m"]
role = "in"
init = "{init}"
range = [{lo}, {hi}]""").replace("x + 1", "x").replace("m = 5", "m = 2")  # fmt: skip
    x = Workload.load(write(tmp_path, text)).make_inputs({"n": 3, "m": 2})["x"]
    assert x.dtype == np.uint64 and lo <= int(x.min()) and int(x.max()) <= hi and np.unique(x).size > 2
