"""Macros of scripts that build a source as they run: followed to constants, or said to be a choice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ktc.project.build_files import BuildFlags, build_flags

Flags = Callable[..., BuildFlags]


@pytest.fixture
def flags_of(tmp_path: Path) -> Flags:
    """What is given for ``cuda/scale.cu`` of a project with these Python files."""

    def flags(**files: str) -> BuildFlags:
        (tmp_path / "cuda").mkdir(exist_ok=True)
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return build_flags(str(tmp_path / "cuda" / "scale.cu"), str(tmp_path))

    return flags


LOAD = """
ops = load(name="ops", sources=["cuda/scale.cpp", "cuda/scale.cu"], extra_cuda_cflags=["-O3", {flags}])
"""


@pytest.mark.parametrize("condition", ["", "import os\nif os.environ['MODE'] == 'bf16':\n    pass\n"])
def test_values_that_are_constants_of_the_script(flags_of: Flags, condition: str) -> None:
    script = condition + "T, W = 1, 2\nROWS = 64\nWIDE = ROWS\n" + LOAD
    found = flags_of(model=script.format(flags='f"-DROWS={ROWS}", f"-D_W_={int(WIDE)}", "-DFAST", f"-DX={unknown}"'))
    assert dict(found.macros) == {"ROWS": "64", "_W_": "64", "FAST": "1"}
    assert dict(found.chosen) == {}


def test_flags_that_a_name_holds_where_the_call_stands(flags_of: Flags) -> None:
    """Of calls for other sources, and after this one, nothing counts."""
    script = """
N = 16
flags = ["-O3", f"-D_N_={N}"]
if "x" in os.environ["KERNEL"]:
    load(name="a", sources=["cuda/other.cu"], extra_cuda_cflags=["-D_N_=7"])
else:
    load(name="b", sources=[f"{here}/scale.cu"], extra_cuda_cflags=flags + ["-DMORE=2"])
N = 32
flags = [f"-D_N_={N}"]
"""
    assert dict(flags_of(model=script).macros) == {"_N_": "16", "MORE": "2"}


def test_environment_and_options_are_choices(flags_of: Flags) -> None:
    model = 'N = int(os.environ["HEAD"])\n' + LOAD.format(
        flags='f"-DN={N}", f"-DT={os.environ.get("LENGTH", 1024)}", f"-DB={args.block}", f"-DG={os.getenv("NOT_SET")}"'
    ).replace('os.environ.get("LENGTH", 1024)', "os.environ.get('LENGTH', 1024)").replace('"NOT_SET"', "'NOT_SET'")
    train = """
parser.add_argument("--head-size", default=64, type=int)
parser.add_argument("--block", type=int, default=32)
os.environ["HEAD"] = str(args.head_size)
"""
    found = flags_of(src__model=model, train=train)
    assert dict(found.macros) == {"N": "64", "T": "1024", "B": "32"}
    assert dict(found.chosen) == {"N": "--head-size of train.py", "T": "$LENGTH", "B": "--block of train.py"}


def test_names_that_lead_to_themselves_are_left_out(flags_of: Flags) -> None:
    script = "a = b\nb = a\na = b\nb = a\n" + LOAD.format(flags='f"-DN={a}", f"-DM={c.d}"')
    assert dict(flags_of(model=script).macros) == {}
