"""Scalars of floating-point type whose values are made of sizes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload
from ktc.ir.workload.real_expressions import check, evaluate, python
from ktc.ir.workload.reference import FormulaError

SIZES = {"n": 7, "heads": 2, "in": 3}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 / n", 1 / 7), ("n", 7.0), ("n // heads", 3.0), ("n % heads + 0.5", 1.5), ("cdiv(n, heads)", 4.0),
        ("1.0 / sqrt(n / heads)", 1 / math.sqrt(3.5)), ("int(n / heads)", 3.0), ("-n / 4", -1.75),
        ("(n - 1) / (heads - 1) if heads > 1 and not n == 1 else n / heads", 6.0), ("in / n", 3 / 7),
        ("max(n, heads) / min(n, heads)", 3.5), ("pow(heads, -0.5)", 2**-0.5), ("log2(8) * exp2(heads)", 12.0),
    ],
)  # fmt: skip
def test_numbers_are_real(text: str, value: float) -> None:
    assert evaluate(text, SIZES) == value
    named = {"n": "n", "heads": "heads", "in": "in_"}
    env = {"n": 7, "heads": 2, "in_": 3, "math": math, "min": min, "max": max, "abs": abs}
    assert float(eval(python(text, named), {"__builtins__": {}}, env)) == value  # as exports compute it


@pytest.mark.parametrize("text", ["m / n", "n ** 2", "sin(n)", "sqrt(n, n)", "[n]", "n @ n", "n /", "n << 2"])
def test_what_is_no_such_expression(text: str) -> None:
    with pytest.raises(FormulaError):
        check(text, SIZES)


@pytest.mark.parametrize("text", ["1 / (n - 7)", "sqrt(heads - n)", "log(n - 7)", "exp(1000 * n)", "pow(10, 400)"])
def test_what_is_no_number(text: str) -> None:
    check(text, SIZES)
    with pytest.raises(FormulaError):
        evaluate(text, SIZES)


FILE = """
[kernel]
source = "k.cu"
name = "k"

[[args]]
name = "x"
dtype = "f32"
role = "inout"
shape = ["n"]

[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"

[[args]]
name = "half"
dtype = "i32"
role = "scalar"
value = "n / 2"

[[args]]
name = "mean"
dtype = "f32"
role = "scalar"
value = "1 / n"

[[scenario]]
name = "s"
sizes = { n = 7 }
"""


def test_a_workload_divides_by_the_type_of_the_scalar() -> None:
    w = Workload.parse(FILE, Path("workload.toml"))
    assert w.scalars({"n": 7}) == {"n": 7, "half": 3, "mean": 1 / 7}
    inputs = w.make_inputs({"n": 7})
    assert inputs["mean"] == float(np.float32(1 / 7)) and inputs["half"] == 3


def test_a_wrong_value_is_told_with_its_place() -> None:
    with pytest.raises(KtcError) as error:
        Workload.parse(FILE.replace('"1 / n"', '"1 / m"'), Path("workload.toml"))
    assert error.value.code == "E-WORKLOAD-FORMULA" and error.value.loc is not None
    assert error.value.loc.line == FILE.split("\n").index('value = "1 / n"') + 1
