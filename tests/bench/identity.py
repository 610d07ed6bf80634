"""Bit identity on a GPU: kernels as their authors wrote them against what ktc prints of them, on the same inputs.

    python -m tests.bench.identity prepare OUT TREE... [-I DIR]           where nvcc is
    python -m tests.bench.identity run OUT [--only NAME] [--seconds N]    where the GPU is

The original is the author's device code (macros expanded, host functions left out) compiled by nvcc; the others are
the re-emission in CUDA and the OpenCL port.
Launches are the file's own where they can be followed, scalars are small integers, buffers are filled by seed. A kernel
counts when its original runs, writes something, and gives the same bits twice (races and float atomics do not).
Each kernel runs in a process of its own, so that a fault or a hang costs one line. Buffers lie between guard zones of
zeros: some originals read a row before the first and discard it (srad_v2), which must not decide who faults.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ktc.survey.kernel_scan import blanked

CUDA_SCALARS = {"int": "i", "uint": "u", "float": "f", "bool": "b"}


# ------------------------------------------------------------------------------------------------------- prepare


def prepare(out: Path, trees: list[str], folders: list[str]) -> None:
    """One pickle a kernel: the Emitted of each backend, and the name of its entry in the original's cubin."""
    from ktc.project.source_trees import Tree
    from ktc.survey import SurveyOptions

    out.mkdir(parents=True, exist_ok=True)
    for root in trees:
        tree = Tree(root)
        for path in tree.with_kernels:
            if path.endswith(".cu"):
                try:
                    _prepare_file(out, path, tree, SurveyOptions(tree.root, include_dirs=tuple(folders)))
                except Exception as e:
                    print(f"{path}: {type(e).__name__}: {str(e)[:120]}", flush=True)


def _prepare_file(out: Path, path: str, tree: Any, options: Any) -> None:
    from ktc.ir.frontend.entry_points import deep_recursion, load_entity, parse_unit
    from ktc.ir.frontend.host.launch_sites import launch_sites
    from ktc.ir.frontend.host.template_instances import instances, spell

    with deep_recursion(path):
        unit = parse_unit(path, None, None, options.include_dirs, tree.find)
        found = []
        for entity in unit.program.kernels:
            for bindings, site, host in instances(
                unit.lowering(), entity, launch_sites(unit.lowering(), entity.name), {}
            )[:1]:
                try:
                    kernel = load_entity(unit, entity, bindings, site, host)
                except Exception:
                    continue
                if site is not None and kernel.launch is not None:
                    found.append((kernel, [spell(bindings[p.name]) for p in entity.params or ()]))
    if not found:
        return
    stem = os.path.relpath(path, os.path.dirname(tree.root)).replace("/", "_")[:-3]
    for kernel, args in found:
        instance = f"{kernel.name}<{', '.join(args)}>" if args else ""
        cubin = out / f"{stem}__{kernel.name}.cubin"
        if why := compile_original(unit.source.text, instance, cubin):
            print(f"{path}: nvcc refuses the original: {why}", flush=True)
            if not instance:
                return
            continue
        _prepare_kernel(out, cubin, kernel, args)


def compile_original(text: str, instance: str, cubin: Path) -> str:
    """Compile the device code of ``text`` (preprocessed), ``instance`` of its template if not '', for sm_90 into
    ``cubin``; '' or the compiler's first error."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "original.cu")
        tail = f"\nvoid *instance() {{ return (void *)&{instance}; }}\n" if instance else ""
        source.write_text(HEADERS + STUBS + device_part(text) + tail, encoding="utf-8")
        command = ["nvcc", "-cubin", "-arch=sm_90", "-w", "-std=c++17", str(source), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, timeout=120)
    if not done.returncode:
        return ""
    lines = done.stderr.decode(errors="replace").splitlines()
    return next((x for x in lines if "error" in x), f"exit status {done.returncode}")


HEADERS = "".join(f"#include <{h}>\n" for h in (
    "cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h", "cooperative_groups.h", "cooperative_groups/reduce.h", "cstdio",
    "cstdlib", "cstdint", "cmath", "cfloat", "climits", "cassert", "algorithm", "type_traits"))  # fmt: skip


STUBS = "".join(f"typedef void *{t};\n" for t in ("cublasComputeType_t", "cublasHandle_t", "cublasLtHandle_t",
    "cudnnHandle_t", "ncclComm_t")) + "#define CUBLAS_COMPUTE_32F 0\n"  # fmt: skip
"""Types of host libraries that file-scope variables are often of."""


INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*\n", re.MULTILINE)


def device_part(text: str) -> str:
    """``text`` without its host functions, whose library calls this compiler may not know; what it includes stays."""
    text = re.sub(r"^[ \t]*#[ \t]*line[^\n]*$", "", text, flags=re.MULTILINE)
    plain = blanked(text)
    kept, start, depth, header, inside = [], 0, 0, "", False
    for m in re.finditer(r"[{};]", plain):
        c, at = m.group(), m.start()
        if c == "{":
            if depth == 0 and not inside:
                header = plain[start:at]
                if re.search(r"\bnamespace\b|\bextern\s*$", header):
                    kept.append(text[start : at + 1])
                    start = at + 1
                    continue
                inside = True
            depth += 1
            continue
        if c == "}":
            if depth == 0:  # of a namespace
                kept.append(text[start : at + 1])
                start = at + 1
                continue
            depth -= 1
        if depth:
            continue
        function = inside and "(" in header and not re.search(r"\b(struct|class|union|enum)\b[^()]*$|=\s*$", header)
        if c == "}" and not function:
            continue  # a record or an initialiser goes on to its semicolon
        device = re.search(r"__device__|__global__|\bconstexpr\b", header if inside else plain[start:at])
        if device or not function:
            kept.append(text[start : at + 1])
        else:
            kept += INCLUDE.findall(text[start : at + 1])
        start, inside, header = at + 1, False, ""
    return "".join(kept)


def _prepare_kernel(out: Path, cubin: Path, kernel: Any, args: list[str]) -> None:
    from ktc.api import Program

    entry = entry_of(cubin, kernel.name, args)
    if entry is None:
        return
    emitted = {}
    for target in ("cuda", "opencl"):
        try:
            emitted[target] = Program(kernel, original=kernel).lower(target)
        except Exception as e:
            print(f"{cubin.stem} {kernel.name}: {target}: {type(e).__name__}: {str(e)[:100]}", flush=True)
    if "cuda" in emitted:
        data = {"cubin": cubin.name, "entry": entry, "emitted": emitted, "name": kernel.name, "file": cubin.stem}
        (out / f"{cubin.stem}__{kernel.name}.pkl").write_bytes(pickle.dumps(data))


def entry_of(cubin: Path, name: str, args: list[str]) -> str | None:
    """The mangled name of kernel ``name``; of several instances, the one whose arguments read like ``args``."""
    listing = subprocess.run(["readelf", "-sW", cubin], capture_output=True, text=True).stdout
    symbols = [w[-1] for w in map(str.split, listing.splitlines()) if len(w) > 7 and w[3] == "FUNC"]
    plain = subprocess.run(["c++filt", *symbols], capture_output=True, text=True).stdout.splitlines()
    same = [(s, p) for s, p in zip(symbols, plain) if p.partition("(")[0].partition("<")[0].split()[-1:] and
            p.partition("(")[0].partition("<")[0].split()[-1].split("::")[-1] == name]  # fmt: skip
    if len(same) > 1:
        same = [(s, p) for s, p in same if all(a in p for a in args)]
    return same[0][0] if len(same) == 1 else None


# ------------------------------------------------------------------------------------------------------------ run


def run(out: Path, only: str, seconds: float, jobs: int) -> None:
    """Every prepared kernel in a process of its own; a line each and the totals."""
    from concurrent.futures import ThreadPoolExecutor

    rows: list[dict[str, str]] = []
    start = time.monotonic()

    def job(pickled: Path) -> None:
        if time.monotonic() - start > seconds:
            return
        try:
            done = subprocess.run(
                [sys.executable, "-m", "tests.bench.identity", "one", str(pickled)],
                capture_output=True,
                text=True,
                timeout=40,
            )
            lines = [x for x in done.stdout.splitlines() if x.startswith("{")]
            row = json.loads(lines[-1]) if lines else {"original": (done.stderr.strip() or "died")[-160:]}
        except subprocess.TimeoutExpired:
            row = {"original": "timeout"}
        rows.append({"kernel": pickled.stem, **row})
        print(json.dumps(rows[-1]), flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(job, sorted(p for p in out.glob("*.pkl") if only in p.name)))
    counted = [r for r in rows if r.get("original") == "runs"]
    print(f"{len(rows)} kernels; original runs, writes, repeats: {len(counted)}", flush=True)
    for target in ("cuda", "opencl"):
        tried = [r for r in counted if target in r]
        same = sum(r[target] == "identical" for r in tried)
        print(f"{target}: identical bits {same} of {len(tried)}", flush=True)


def inputs(kernel: Any, seed: int, elements: int, small: int) -> dict[str, Any]:
    """Arguments by name: numpy arrays of ``elements`` elements and scalars."""
    import numpy as np

    from ktc.ir.types import Ptr, Scalar, scalar_of

    rng = np.random.default_rng(seed)
    args: dict[str, Any] = {}
    for p in kernel.params:
        t = p.sym.type
        s = scalar_of(t.elem if isinstance(t, Ptr) else t)
        if not isinstance(t, Ptr | Scalar) or s.kind not in CUDA_SCALARS or (s.is_float and s.bits < 32):
            raise ValueError(f"parameter {p.sym.name} of type {t}")
        kind = f"float{s.bits}" if s.is_float else "bool" if s.kind == "bool" else f"{s.kind}{s.bits}"
        if isinstance(t, Ptr):
            width = getattr(t.elem, "n", 1)
            shape = elements * (width if isinstance(width, int) else 1)
            if s.is_float:
                args[p.sym.name] = rng.random(shape, np.float32).astype(kind) + np.array(0.25, kind)
            else:
                args[p.sym.name] = rng.integers(0, 2 if kind == "bool" else small, shape, np.int32).astype(kind)
        else:
            args[p.sym.name] = 0.75 if s.is_float else True if s.kind == "bool" else small
    return args


def one(pickled: Path) -> dict[str, str]:
    """Original twice, then each backend, on two sets of inputs; the first difference decides."""
    import cupy
    import numpy as np

    from ktc.backends.runtimes import open_runtime
    from ktc.backends.runtimes.common import geometry, signature

    data = pickle.loads(pickled.read_bytes())
    kernel = data["emitted"]["cuda"].kernel
    original = cupy.RawModule(path=str(pickled.parent / data["cubin"])).get_function(data["entry"])
    row: dict[str, str] = {}
    for seed, small in ((1, 384), (2, 192)):
        args = inputs(kernel, seed, 1 << 22, small)
        g = geometry(kernel, args)
        if g.empty:
            return {"original": "launches nothing"}
        threads = int(np.prod(g.grid)) * int(np.prod(g.block))
        if threads > 1 << 22:
            args = inputs(kernel, seed, 1 << 25, small)

        def launch_original(args: Any = args, g: Any = g) -> dict[str, Any]:
            on = {k: _guarded(cupy.asarray, v) for k, v in args.items() if isinstance(v, np.ndarray)}
            packed = []
            for name, t in signature(kernel):
                packed.append(on[name] if name in on else getattr(np, _numpy(t))(args[name]))
            original(g.grid, g.block, tuple(packed), shared_mem=g.shared)
            cupy.cuda.runtime.deviceSynchronize()
            return {k: cupy.asnumpy(v) for k, v in on.items()}

        first, second = launch_original(), launch_original()
        if not _same(first, second):
            return {"original": "differs from itself"}
        if _same(first, {k: v for k, v in args.items() if k in first}):
            return {"original": "writes nothing"}
        row["original"] = "runs"
        for target, code in data["emitted"].items():
            try:
                runtime = open_runtime(target)
                exe = runtime.compile(code)
                on = {k: _guarded(runtime.to_device, v) if isinstance(v, np.ndarray) else v for k, v in args.items()}
                exe.launch(on)
                runtime.synchronize()
                got = {k: runtime.to_host(on[k], v) for k, v in args.items() if k in first}
                verdict = "identical" if _same(first, got) else _difference(first, got)
            except Exception as e:
                verdict = f"{type(e).__name__}: {str(e)[:200]}"
            if row.get(target, "identical") == "identical":
                row[target] = verdict
    return row


GUARD = 1 << 18
"""Bytes of zeros before and after a buffer; a multiple of what sub-buffers must be aligned to."""


def _guarded(to_device: Any, array: Any) -> Any:
    """``array`` on a device, inside an allocation that goes on for ``GUARD`` bytes on both sides."""
    import numpy as np

    flat = np.ascontiguousarray(array).reshape(-1)
    zeros = np.zeros(GUARD // flat.itemsize, flat.dtype)
    whole = to_device(np.concatenate([zeros, flat, zeros]))
    if hasattr(whole, "buffer"):
        whole.parent, whole.buffer = whole.buffer, whole.buffer.get_sub_region(GUARD, flat.nbytes)
        whole.nbytes = flat.nbytes
        return whole
    return whole[len(zeros) : len(zeros) + flat.size]


def _numpy(t: Any) -> str:
    return f"float{t.bits}" if t.is_float else "bool_" if t.kind == "bool" else f"{t.kind}{t.bits}"


def _same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return all(a[k].tobytes() == b[k].tobytes() for k in a)


def _difference(a: dict[str, Any], b: dict[str, Any]) -> str:
    import numpy as np

    parts = []
    for k in a:
        bad = np.flatnonzero(a[k].view(f"u{a[k].itemsize}") != b[k].view(f"u{b[k].itemsize}"))
        if len(bad):
            x, y = a[k][bad].astype(float), b[k][bad].astype(float)
            worst = float(np.nanmax(np.abs(x - y) / np.maximum(np.abs(x), 1e-30)))
            parts.append(f"{k}: {len(bad)} of {a[k].size} differ, at most {worst:.2e} relative")
    return "; ".join(parts)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("what", choices=["prepare", "run", "one"])
    arguments.add_argument("out", type=Path)
    arguments.add_argument("trees", nargs="*")
    arguments.add_argument("-I", dest="folders", action="append", default=[])
    arguments.add_argument("--only", default="")
    arguments.add_argument("--jobs", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=1e9)
    o = arguments.parse_args()
    if o.what == "prepare":
        prepare(o.out, o.trees, o.folders)
    elif o.what == "run":
        run(o.out, o.only, o.seconds, o.jobs)
    else:
        print(json.dumps(one(o.out)))


if __name__ == "__main__":
    main()
