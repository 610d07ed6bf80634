"""cache-hints: hints where they are safe, restrict where no alias is known."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.ir.types import Ptr
from ktc.passes.core.pipeline import PassBug
from ktc.passes.memory import cache_hints
from tests.passes.checks import applied, body_of, differs, refused

COPY = parse_kernel("""\
kernel copy(out: f32* noalias, in: f32 const*, t: f32* noalias, n: i32)
  par i in 0..n @ [thread.x 32, block.x]
    t[i] = t[i] + in[i]
    out[i] = t[i]
""")


def test_before_and_after() -> None:
    k = applied(COPY, "cache-hints{loads=in stores=out}")
    assert (
        body_of(k)
        == """\
  par i in 0..n @ [thread.x 32, block.x]
    t[i] += in.ldg[i]
    out.cs[i] = t[i]
"""
    )
    restrict = [p.sym.name for p in k.params if isinstance(p.sym.type, Ptr) and p.sym.type.restrict]
    assert restrict == ["out", "t"]


def test_all_takes_what_it_may() -> None:
    assert "t.cs[i] = t[i] + in.ldg[i]" in body_of(applied(COPY, "cache-hints"))
    assert "in.cg[i]" in body_of(applied(COPY, "cache-hints{loads=in load=cg stores=none}"))


def test_meaning_stays() -> None:
    assert differs(COPY, applied(COPY, "cache-hints"), [{"n": n} for n in (1, 31, 32, 33, 97)]) is None


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("cache-hints{loads=t}", "E-CACHE-WRITTEN"),
        ("cache-hints{loads=zz}", "E-CACHE-BUFFER"),
        ("cache-hints{stores=in}", "E-CACHE-BUFFER"),
        ("cache-hints{load=warm}", "E-CACHE-HINT"),
        ("cache-hints{loads=none stores=none}", "E-CACHE-NONE"),
    ],
)
def test_refusals(script: str, code: str) -> None:
    assert refused(COPY, script).code == code


def test_pointers_that_may_alias_refuse_the_read_only_path() -> None:
    k = parse_kernel("kernel k(out: f32*, in: f32 const*, n: i32)\n  par i in 0..n @ [block.x]\n    out[i] = in[i]\n")
    got = refused(k, "cache-hints{loads=in}")
    assert got.code == "E-CACHE-ALIAS" and "'out' is written and may alias 'in'" in got.why
    assert "in.cs[i]" in body_of(applied(k, "cache-hints{loads=in load=cs}"))


def test_a_wrong_version_is_caught_by_the_verifier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_hints, "check_read_only", lambda kernel, buffer: None)
    with pytest.raises(PassBug, match="V-SPACE"):
        applied(COPY, "cache-hints{loads=t}")
