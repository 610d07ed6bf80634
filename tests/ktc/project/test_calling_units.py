"""Which units of a project call a function, by themselves or through a header."""

from __future__ import annotations

from pathlib import Path

from ktc.project.calling_units import MOST_UNITS, units_calling

HEADER = """
void scale_f(float* x, int n);
inline void scale(float* x, int n) {
  if (n) { scale_f(x, n); }
}
"""


def test_units_that_call_most_first_and_tests_last(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    src = tmp_path / "src"
    src.mkdir()
    texts = {
        "k.cu": "void scale_f(float* x, int n) { k<<<n, 32>>>(x); }",
        "k.h": HEADER,
        "once.cc": "void f() { scale(x, 3); }",
        "twice.cc": "void f() { scale(x, 3); scale_f (x, 4); }",
        "a-test.cc": "void f() { scale(x, 3); scale(x, 4); scale(x, 5); }",
        "other.cc": "void rescale(int); void f() { rescale(3); }",
    }
    for name, text in texts.items():
        (src / name).write_text(text)
    found = [Path(f).name for f in units_calling(str(src / "k.cu"), str(tmp_path), "scale_f")]
    assert found == ["twice.cc", "once.cc", "a-test.cc"][:MOST_UNITS]
    assert units_calling(str(src / "k.cu"), str(tmp_path), "unheard_of") == []
