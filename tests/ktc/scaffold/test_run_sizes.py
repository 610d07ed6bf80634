"""A scenario for what the project's Makefile runs its program with."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc import api
from ktc.project.run_arguments import run_arguments
from ktc.scaffold import workload_text
from ktc.scaffold.as_seen.run_sizes import as_read

MAKEFILE = """program = main
LAUNCHER =
$(program): main.o
\tnvcc -o $@ main.o
run: $(program)
\techo measured; $(LAUNCHER) ./$(program) ARGUMENTS
"""
MAIN = """
__global__ void spike(float* v, const float* bias, int n, int each) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) v[i] += bias[i % each];
}
void start(float* v, const float* bias, size_t n, int each) { spike<<<(n + 255) / 256, 256>>>(v, bias, n, each); }
int main(int argc, char* argv[]) {
  const int each = atoi(argv[1]), items = argc > 2 ? std::stoi(argv[2]) : 7;
  const size_t n = (size_t)each * items;
  float *v, *bias;
  start(v, bias, n, each);
}
"""


def drafted(folder: Path, arguments: str, main: str = MAIN) -> str:
    (folder / "Makefile").write_text(MAKEFILE.replace("ARGUMENTS", arguments))
    (folder / ".git").mkdir(exist_ok=True)
    file = folder / "main.cu"
    file.write_text(main)
    program = api.load(str(file))
    return workload_text(program.kernel, program.source, folder / "workload.toml")[0]


def test_sizes_are_those_of_the_program_s_own_run(tmp_path: Path) -> None:
    text = drafted(tmp_path, "100000 320")
    assert 'name = "run"' in text and "each = 100000" in text and 'name = "large"' not in text
    assert "items = 320" in text or "n = 32000000" in text


def test_a_small_run_is_beside_the_others(tmp_path: Path) -> None:
    text = drafted(tmp_path, "100 32")
    assert 'name = "run"' in text and 'name = "large"' in text


@pytest.mark.parametrize("arguments", ["numbers.txt 32", "", "100000000 100000"], ids=["a file", "none", "too large"])
def test_a_run_that_says_nothing_of_sizes_is_none(tmp_path: Path, arguments: str) -> None:
    assert 'name = "run"' not in drafted(tmp_path, arguments)


NUMBERS = MAIN.replace("atoi(argv[1])", "EACH").replace("argc > 2 ? std::stoi(argv[2]) : 7", "300")


def test_numbers_of_main_are_the_sizes_of_a_run_unless_they_are_a_toy_s(tmp_path: Path) -> None:
    text = drafted(tmp_path, "", NUMBERS.replace("EACH", "1 << 17"))
    assert 'name = "run"' in text and "each = 131072" in text and 'name = "large"' not in text
    assert 'name = "run"' not in drafted(tmp_path, "", NUMBERS.replace("EACH", "3"))


GROUPS = """
__global__ void dequantise(const float* v, const float* scale, float* out, int n, int group) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = v[i] * scale[i / group];
}
void start(const float* v, const float* s, float* out, int n, int group) {
  dequantise<<<(n + 255) / 256, 256>>>(v, s, out, n, group);
}
int main() { float *v, *s, *out; start(v, s, out, 1 << 22, 128); }
"""


def test_how_many_elements_share_one_is_the_same_at_all_sizes(tmp_path: Path) -> None:
    text = drafted(tmp_path, "", GROUPS)
    assert text.count("group = 128") == text.count("sizes =") - 1 and "n = 4194304" in text  # but for odd sizes


def test_what_is_read_of_arguments() -> None:
    text = "int main(int argc, char** argv) { f(argc, atol(argv[2]), strtoul(argv[1], NULL, 10), atof(argv[1])); }"
    told = "int main(int argc, char** argv) { f(3, 64, 8, atof(argv[1])); }"
    assert as_read(text, ["8", "64"]) == told
    assert as_read(text, ["8"]) == told.replace("64", "atol(argv[2])").replace("f(3", "f(2")
    assert as_read("int f(int argc) { return argc; }", ["1"]) == "int f(int argc) { return argc; }"


def test_arguments_of_the_target_run(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    makefile = "run: main\n\tmkdir -p out\n\t$(L) ./main 3 \\\n\t  'a b' 4\ncheck: main\n\t./main 9\n"
    (tmp_path / "Makefile").write_text(makefile)
    source = str(tmp_path / "src" / "k.cu")
    assert run_arguments(source, str(tmp_path)) == ["3", "a b", "4"]
    assert run_arguments(source, str(tmp_path / "src")) == []
    (tmp_path / "Makefile").write_text(makefile.replace("run:", "all:"))
    assert run_arguments(source, str(tmp_path)) == []
