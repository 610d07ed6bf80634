"""Front-end speed: source lines a second of CPU time, by stage, over files and over an unrolled kernel of N lines.

    python -m tests.bench.frontend_speed [--lines 20000] [--repeat 3] [FILE ...]

Lines are those after preprocessing. ``parse`` is lexing, parsing and indexing; ``lower`` types, names and IR of every
kernel that is no template. Files are read once; kernels that are refused count with the time they took.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.dialects.dialect import dialect_of
from ktc.ir.frontend.entry_points import deep_recursion, load_entity
from ktc.ir.frontend.preprocess.preprocessor import preprocess
from ktc.ir.frontend.preprocess.source_text import read_source
from ktc.ir.frontend.syntax.cxx_parser import CudaParser
from ktc.ir.frontend.syntax.program import index_program


def unrolled(lines: int) -> str:
    """A kernel whose body is ``lines`` statements of one multiply-add each."""
    body = "\n".join(f"  s{k % 4} += x[i + {k}] * w[{k % 64}];" for k in range(lines))
    head = "__global__ void k(const float *x, const float *w, float *y) {\n  int i = blockIdx.x * 256 + threadIdx.x;\n"
    return f"{head}  float s0 = 0, s1 = 0, s2 = 0, s3 = 0;\n{body}\n  y[i] = s0 + s1 + s2 + s3;\n}}\n"


def measure(texts: list[tuple[str, str]]) -> dict[str, float]:
    """CPU seconds by stage, and ``lines`` after preprocessing."""
    spent = {"preprocess": 0.0, "parse": 0.0, "lower": 0.0, "lines": 0.0}
    for file, text in texts:
        try:
            with deep_recursion(file):
                _one(file, text, spent)
        except KtcError as e:
            print(f"{file}: {e.code}")
    return spent


def _one(file: str, text: str, spent: dict[str, float]) -> None:
    from ktc.ir.frontend.entry_points import Unit

    clock = time.process_time
    dialect = dialect_of(file, text)
    at = clock()
    source = preprocess(text, file, dialect=dialect)
    spent["preprocess"] += clock() - at
    spent["lines"] += source.text.count("\n")
    at = clock()
    program = index_program(CudaParser(dialect=dialect).parse_unit(source.text, file), dialect)
    spent["parse"] += clock() - at
    at = clock()
    unit = Unit(file, source, program)
    for entity in program.kernels:
        try:
            load_entity(unit, entity, {}, None, {})
        except KtcError:
            continue
    spent["lower"] += clock() - at


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("files", nargs="*")
    arguments.add_argument("--lines", type=int, default=20_000)
    arguments.add_argument("--repeat", type=int, default=3)
    options = arguments.parse_args()
    cases = {f"unrolled kernel of {options.lines} lines": [("unrolled.cu", unrolled(options.lines))]}
    if options.files:
        cases[f"{len(options.files)} files"] = [(f, read_source(f)) for f in options.files]
    for name, texts in cases.items():
        runs = []
        for _ in range(options.repeat):
            gc.collect()
            runs.append(measure(texts))
        best = min(runs, key=lambda r: r["parse"] + r["lower"])
        n = best["lines"]
        both = best["parse"] + best["lower"]
        stages = ", ".join(f"{k} {n / max(best[k], 1e-9):,.0f}" for k in ("preprocess", "parse", "lower"))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"{name}: {n:,.0f} lines; lines/s: {stages}; parse and lower {n / both:,.0f}; peak {peak} MiB")


if __name__ == "__main__":
    main()
