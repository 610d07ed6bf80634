"""The list of the suites' kernels has its form; a suite of one file is drafted, refused and kept as its list says."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.bench import suites

SOURCE = """
__global__ void twice(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
__global__ void unlaunched(float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 1.0f;
}
void host(const float *x, float *y, int n) { twice<<<(n + 255) / 256, 256>>>(x, y, n); }
"""

LIST = """
[[suite]]
name = "tiny"
url = "https://example.org/tiny"
revision = "0123456789012345678901234567890123456789"
programs = "files"
most = 9
kernels = [
  { file = "one.cu", kernel = "twice" },
  { file = "one.cu", kernel = "unlaunched" },
  { file = "two.cu", kernel = "k" },
  { file = "three.cu", kernel = "k" },
]
"""


def test_the_list_has_its_form() -> None:
    listed = tomllib.loads(suites.LIST.read_text())["suite"]
    found = list(suites.entries(listed))
    assert len(listed) >= 3 and len(found) <= 40
    assert len({e.name for e in found}) == len(found)
    for s in listed:
        assert re.fullmatch("[0-9a-f]{40}", s["revision"]) and s["url"].startswith("https://") and s["programs"]
        assert 0 < len(s["kernels"]) <= s["most"]
        files = [k["file"] for k in s["kernels"]]
        assert files == sorted(files, key=lambda f: [p.lower() for p in Path(f).parts]), "in the order of the rule"
        assert not any(Path(f).is_absolute() or ".." in Path(f).parts for f in files)


def _main(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    monkeypatch.setattr(sys, "argv", ["suites", *options])
    suites.main()
    return capsys.readouterr().out


def test_a_suite_is_drafted_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "one.cu").write_text(SOURCE)
    (tmp_path / "tiny" / "two.cu").write_text("__global__ void k(float *y) { y[0] = nowhere; }\n")
    (tmp_path / "list.toml").write_text(LIST)
    options = ("--checkout", str(tmp_path), "--list", str(tmp_path / "list.toml"))
    looked = _main(monkeypatch, capsys, *options)
    assert "tiny: no git checkout" in looked and "tiny.twice: there" in looked
    assert "tiny.three.k: no file three.cu" in looked

    out = tmp_path / "out"
    said = _main(monkeypatch, capsys, *options, "--prepare", str(out))
    assert "| tiny.twice | yes | " in said and (out / "tiny.twice" / "workload.toml").exists()
    assert re.search(r"\| tiny.unlaunched \| not runnable \| \d+ \| the launch: the source has no <<<>>>", said)
    assert re.search(r"\| tiny.two.k \| no \| - \| .*error: .*nowhere", said)
    assert "| tiny.three.k | no | - | no file three.cu |" in said
    assert "1 of 4 drafted and runnable" in said
    assert (out / "runnable").read_text().split() == [str(out / "tiny.twice")]

    marked = out / "tiny.twice" / "workload.toml"
    marked.write_text(marked.read_text() + "# mine\n")
    again = _main(monkeypatch, capsys, *options, "--prepare", str(out), "--only", "twice")
    assert "1 of 1 drafted and runnable" in again and marked.read_text().endswith("# mine\n")


def test_no_draft_lies_in_this_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["suites", "--checkout", str(tmp_path), "--prepare", str(suites.ROOT / "drafts")])
    with pytest.raises(SystemExit):
        suites.main()
    assert not (suites.ROOT / "drafts").exists()
