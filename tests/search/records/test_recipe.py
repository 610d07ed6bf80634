"""Recipes are canonical, survive a round trip, and say clearly what is wrong with a bad one."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.search.records.recipe import Recipe, canonical_json, sha256, write_whole

RECIPE = Recipe(
    kernel="silu_and_mul_kernel",
    source_sha256=sha256("__global__ void k() {}\n"),
    script="raise | vectorize{width=$V}",
    knobs={"V": 8, "T": 256},
    target="cuda",
    verdicts=({"rung": "interp", "ok": True},),
    timings={"decode": {"seconds": 1.25e-5, "low": 1.2e-5, "high": 1.3e-5}},
    versions={"ktc": "0.1.0", "compiler": "nvcc 13.0"},
)


def test_round_trip(tmp_path: Path) -> None:
    RECIPE.save(tmp_path / "r.json")
    loaded = Recipe.load(tmp_path / "r.json")
    assert loaded.hash == RECIPE.hash and loaded.to_json() == RECIPE.to_json()
    assert loaded.knobs == {"T": 256, "V": 8} and loaded.timings == RECIPE.timings


def test_hash_covers_identity_and_not_evidence() -> None:
    again = replace(RECIPE, timings={"decode": {"seconds": 1.0}}, versions={}, verdicts=(), source="/elsewhere/k.cu")
    assert again.hash == RECIPE.hash
    changes = {"script": "raise", "knobs": {"V": 4, "T": 256}, "target": "hip", "variant": "bf16", "kernel": "other"}
    hashes = {replace(RECIPE, **{k: v}).hash for k, v in changes.items()}  # type: ignore[arg-type]
    assert len(hashes) == len(changes) and RECIPE.hash not in hashes


def test_order_of_entries_does_not_matter() -> None:
    assert replace(RECIPE, knobs={"T": 256, "V": 8}).to_json() == RECIPE.to_json()


def test_canonical_json() -> None:
    data = {"b": np.float64(0.1), "a": (np.int32(3), True, None, math.inf), "ü": "ü"}
    assert canonical_json(data) == '{"a":[3,true,null,null],"b":0.1,"ü":"ü"}'
    with pytest.raises(TypeError):
        canonical_json({"x": object()})


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"format": 99}, "E-RECIPE-VERSION"),
        ({"knobs": {"V": 16, "T": 256}}, "E-RECIPE-HASH"),
        ({"knobs": {"V": "8"}}, "E-RECIPE-FORMAT"),
        ({"knobs": [1]}, "E-RECIPE-FORMAT"),
        ({"script": 3}, "E-RECIPE-FORMAT"),
        ({"surprise": 1}, "E-RECIPE-FORMAT"),
    ],
)
def test_bad_recipes_are_refused(tmp_path: Path, change: dict, code: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(json.loads(RECIPE.to_json()) | change))
    with pytest.raises(KtcError) as info:
        Recipe.load(path)
    assert info.value.code == code and info.value.exit_code == 2 and "r.json" in info.value.message


@pytest.mark.parametrize(
    ("text", "code"), [("{", "E-RECIPE-FORMAT"), ("[]", "E-RECIPE-FORMAT"), ("{}", "E-RECIPE-FORMAT")]
)
def test_not_a_recipe(tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(KtcError, match=code):
        Recipe.load(tmp_path / "r.json")
    with pytest.raises(KtcError, match="E-RECIPE-READ"):
        Recipe.load(tmp_path / "absent.json")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "r.json"
    with pytest.raises(KtcError) as info:
        write_whole(path, "x")
    assert info.value.code == "E-WRITE" and info.value.exit_code == 3
    path.parent.mkdir()
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\ud800")  # fails while writing
    assert path.read_text() == "old" and list(path.parent.iterdir()) == [path]
    assert os.stat(path).st_mode & 0o044, "readable like any file"
