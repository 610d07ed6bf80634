"""The user's own file with its launches replaced in place: everything else byte for byte, the original kernel kept.

A launch ``k<T><<<grid, block, shared, stream>>>(args)`` becomes

    k_tuned::launch(k<T>, {k_tuned::id(k<float>)}, k_tuned::config(grid, block, shared, stream), args)

and one header is included. Where ``k<T>`` is an instance that was tuned, the launch is the one that the run was made
with, and what a tuned kernel relies on holds, that kernel is launched; else ``k<T>``, exactly as before.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktc.backends.base import Emitted
from ktc.backends.c_family.line_layout import wrap
from ktc.backends.launchers.launch_geometry import geometry
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import list_kernels
from ktc.ir.frontend.entry_points import KernelInfo, template_arguments
from ktc.ir.nodes import Expr, Var
from ktc.ir.workload import Workload

from .artefact import Artefact
from .building import Built
from .cxx_kernels import APIS, Host, common, host_of, includes, instance_code, tried
from .cxx_libraries import nvcc_flags
from .file_scope import behind_declarations
from .host_sizes import without_host_sizes
from .launch_edits import LaunchText, launches, replaced, with_include
from .python_packages import Files, what_runs

CUDA = APIS["cuda"]


@dataclass(frozen=True)
class Edited:
    """A source's text with the launches of one kernel replaced, and the header that they call."""

    built: Built
    text: str
    header: str
    printed: str
    launches: int


def source_files(built: Built) -> Files:
    """The edited file, the header, and a patch.

    Raises:
        KtcError: E-EXPORT-LAUNCH (no launch by name in the file), E-EXPORT-OVERLOAD (several kernels of that name),
            E-EXPORT-HOST (a size that no launch tells).
    """
    return several_source_files([built])


def several_source_files(several: Sequence[Built]) -> Files:
    """The edited files of several kernels: those of one file are replaced in it one after the other.

    Raises:
        KtcError: as :func:`source_files`; E-EXPORT-KERNELS, two files of one name, or two kernels of one.
    """
    for b in several:
        if any(i.original.then for i in b.artefact.instances):
            message = f"{b.artefact.name} is a sequence of launches, which are not replaced in their source one by one"
            raise KtcError("E-EXPORT-SEQUENCE", message, hint="--to cmake writes a function to call in their place")
    names = [b.artefact.name for b in several]
    if len(set(names)) < len(names):
        raise KtcError("E-EXPORT-KERNELS", f"two of these kernels have one name: {', '.join(names)}",
                       hint="export one of them", exit_code=2)  # fmt: skip
    texts: dict[str, tuple[str, str]] = {}
    every = list[Edited]()
    for built in several:
        source = Path(built.workload.source)
        own = _read(source)
        before, after = texts.get(source.name, (own, own))
        if before != own:
            said = f"these runs are of two files {source.name}"
            raise KtcError("E-EXPORT-KERNELS", said, hint="export each by itself", exit_code=2)
        one = _edited(built, after)
        every.append(one)
        texts[source.name] = (before, one.text)
    patch = "".join(_patch(name, before, after) for name, (before, after) in texts.items())
    patch += "".join(_patch(e.header, "", e.printed) for e in every)
    read = [_readme(e.built.artefact, Path(e.built.workload.source).name, e.header, e.launches) for e in every]
    described = [e.built.artefact.to_json() for e in every]
    return {
        **{name: after for name, (_, after) in texts.items()},
        **{e.header: e.printed for e in every},
        "tuned.patch": patch,
        "README.md": "\n".join(read),
        "kernel.json": json.dumps(described[0] if len(described) == 1 else described, indent=1) + "\n",
    }


def _edited(built: Built, text: str) -> Edited:
    """``text``, the kernel's source or that with launches of other kernels replaced, with this kernel's replaced."""
    built = without_host_sizes(built)
    a = built.artefact
    source = Path(built.workload.source)
    plain = re.split(r"[<(]", built.workload.kernel_name)[0].split("::")[-1].strip()
    found = launches(text, plain)
    if not found:
        raise KtcError(
            "E-EXPORT-LAUNCH", f"{source.name} has no launch {plain}<<<...>>>(...) to replace",
            hint="`ktc export --to cmake` writes a function that you call in place of your launch",
        )  # fmt: skip
    _check_overloads(built.workload, source, plain)
    space = f"{a.name}_tuned"
    names = [*_instances(built, source)]
    header = f"{a.name}_tuned.cuh"
    explicit = _explicit(built.workload, source, plain)
    variables = {name for code in a.codes for name in code.symbols}
    edited = replaced(text, found, lambda launch: _call(launch, space, names, explicit))
    text = with_include(edited, f'#include "{header}"', behind_declarations(edited, variables, source.name))
    return Edited(built, text, header, _header(built, space), len(found))


def _check_overloads(work: Workload, source: Path, plain: str) -> None:
    """That a kernel's name without its parameters is one function, or one template."""
    same = [i.name for i in _kernels(work, source) if re.split(r"[<(]", i.name)[0].split("::")[-1] == plain]
    if any("(" in name for name in same):
        raise KtcError(
            "E-EXPORT-OVERLOAD", f"{source.name} has several kernels of that name: {', '.join(same)}",
            hint="give it a name of its own, or `ktc export --to cmake`: a function to call in place of your launch",
        )  # fmt: skip


def _kernels(work: Workload, source: Path) -> list[KernelInfo]:
    return list_kernels(str(source), defines=dict(work.defines) or None, include_dirs=work.include_dirs)


def _read(source: Path) -> str:
    data = source.read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        message = f"{source.name} is not UTF-8: its bytes could not be kept as they are"
        raise KtcError("E-EXPORT-ENCODING", message, hint="convert it first, or export to cmake") from None


def _instances(built: Built, source: Path) -> Iterator[str]:
    """Each instance as host code names it: ``ns::k<__half, 8>``."""
    work = built.workload
    name = work.kernel_name.split("(")[0].strip()
    for variant in built.variants:
        if "<" in name:
            yield name
            continue
        given = work.template(variant) or _deduced(work, source)
        if not given:
            yield name
            continue
        yield f"{name}<{', '.join(given[p] for p in _template_order(work, source) if p in given)}>"


def _deduced(work: Workload, source: Path) -> dict[str, str]:
    """The template arguments of the one instance that the file launches."""
    if not _template_order(work, source):
        return {}
    how = {"defines": dict(work.defines) or None, "include_dirs": work.include_dirs}
    return next(template_arguments(str(source), kernel=work.kernel_name, **how), {})  # type: ignore[arg-type]


def _template_order(work: Workload, source: Path) -> list[str]:
    """The kernel's template parameters in order."""
    name = work.kernel_name.split("(")[0].split("<")[0].strip()
    for info in _kernels(work, source):
        if info.name.split("(")[0].split("::")[-1] == name.split("::")[-1] and info.template:
            return [t.name for t in info.template]
    return list(work.template(None))


def _explicit(work: Workload, source: Path, plain: str) -> str:
    """What stands in angle brackets of a launch that leaves its template arguments to be deduced; '' where the kernel
    is no template, '?' where launches of the file give several."""
    order = _template_order(work, source)
    if not any(i.template for i in _kernels(work, source) if i.name.split("(")[0].split("::")[-1] == plain):
        return ""
    how = {"defines": dict(work.defines) or None, "include_dirs": work.include_dirs}
    every = template_arguments(str(source), kernel=plain, guesses=False, **how)  # type: ignore[arg-type]
    given = list(dict.fromkeys(", ".join(g[p] for p in order if p in g) for g in every))
    return f"<{given[0]}>" if len(given) == 1 else "?"


def _call(launch: LaunchText, space: str, names: Sequence[str], explicit: str) -> str:
    """``names``: of the instances, which are in the namespace that the launch names, where they name none themselves;
    ``explicit``: the template arguments of a launch that names none."""
    outer, inside, _ = launch.callee.split("<")[0].rpartition("::")
    ids = ", ".join(f"{space}::id({n if '::' in n.split('<')[0] else outer + inside + n})" for n in names)
    args = f", {launch.arguments.strip()}" if launch.arguments.strip() else ""
    named = launch.callee.rstrip().endswith(">")
    if not named and explicit == "?":
        raise KtcError(
            "E-EXPORT-LAUNCH", f"the launch {launch.callee}<<<...>>> leaves its template arguments to be deduced",
            hint=f"write them, as {launch.callee}<float><<<...>>>, and export again",
        )  # fmt: skip
    callee = launch.callee if named else launch.callee + explicit
    return f"{space}::launch({callee}, {{{ids}}}, {space}::config({launch.config.strip()}){args})"


def _patch(name: str, before: str, after: str) -> str:
    """A patch for ``git apply`` in the file's folder."""
    old = f"a/{name}" if before else "/dev/null"
    head = f"diff --git a/{name} b/{name}\n" + ("" if before else "new file mode 100644\n")
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), old, f"b/{name}")
    return head + "".join(t if t.endswith("\n") else f"{t}\n\\ No newline at end of file\n" for t in lines)


# -------------------------------------------------------------------------------------------------------------- header


def _header(built: Built, space: str) -> str:
    a, api = built.artefact, CUDA
    texts = [built.texts[v.file] for i in a.instances for v in i.variants]
    originals = [built.texts[i.original.file] for i in a.instances]
    lines = [
        f"// Tuned kernels of {a.name}, and launch(), which picks one. Written by ktc; see README.md.",
        "#pragma once", *includes([*texts, *originals], api),
        "#include <initializer_list>", "#include <type_traits>", "",
        f"namespace {space} {{",
        *SUPPORT.splitlines(), "", "namespace {", "", *common(texts, api),
    ]  # fmt: skip
    for k, i in enumerate(a.instances):
        tag = a.tag(k)
        lines += instance_code(i, built.texts, api, tag)
        lines += _chosen(built.texts[i.original.file], f"run{tag}", [*tried(i, built.texts, api, tag, _host(built, k))])
    lines += ["}  // namespace", "", *_launch(built), f"}}  // namespace {space}", ""]
    return "\n".join(lines)


def _host(built: Built, k: int) -> Host:
    return host_of(built.texts[built.artefact.instances[k].original.file], CUDA)


SUPPORT = """\

// A launch's configuration, as <<<...>>> takes it.
struct Config {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};

inline Config config(dim3 grid, dim3 block, std::size_t shared = 0, cudaStream_t stream = 0) {
  return {grid, block, shared, stream};
}

// A kernel's identity: which instance of a template it is.
template <typename... P>
const void* id(void (*kernel)(P...)) {
  return reinterpret_cast<const void*>(kernel);
}

template <typename P>
struct same {
  using type = P;
};

inline bool is(dim3 a, long long x, long long y, long long z) { return a.x == x && a.y == y && a.z == z; }

// A kernel of another type, which no tuned kernel stands for.
template <typename... A>
bool called(bool (*)(Config, A...), ...) {
  return false;
}

// Passes arguments as the tuned kernels' parameters: the same values under the same types' other names.
template <typename... T, typename... A>
auto called(bool (*run)(Config, T...), Config given, A... args)
    -> typename std::enable_if<sizeof...(T) == sizeof...(A), bool>::type {
  return run(given, (T)args...);
}
"""


def _chosen(original: Emitted, name: str, statements: list[str]) -> list[str]:
    """``bool NAME(Config, arguments...)``: whether a tuned kernel was launched in place of this launch."""
    h = host_of(original, CUDA)
    own = [p for p in h.params if not p.host]
    params = ", ".join(["Config given_", *(h.parameter(p) for p in own)])
    lines = [*wrap(f"inline bool {name}({params}) {{", "")]
    if statements:
        lines += [out for line in _sizes(h) for out in wrap(line, "  ")]
        lines += ["  const cudaStream_t stream = given_.stream;"]
        lines += [s.replace("return launched;", "return launched == cudaSuccess;") for s in statements]
    return [*lines, "  return false;", "}", ""]


def _sizes(h: Host) -> Iterator[str]:
    """Sizes that the launch alone tells, and that the launch is the one that the kernel was tuned with."""
    g = geometry(h.kernel)
    dims = [
        (f"given_.{kind}.{axis}", e)
        for kind, es in (("grid", g.grid), ("block", g.block))
        for axis, e in zip("xyz", es)
    ]
    told: dict[str, str] = {}
    for place, e in dims:
        if isinstance(e, Var):
            told.setdefault(e.sym.name, place)
    for p in h.params:
        if p.host:
            if p.sym.name not in told:
                raise KtcError(
                    "E-EXPORT-HOST",
                    f"the size '{p.sym.name}' is no argument of the kernel, and no dimension of its launch",
                    h.kernel.loc, "`ktc export --to cmake` writes a function that takes it",
                )  # fmt: skip
            kind = h.x.d.type_name(p.sym.type)
            yield f"const {kind} {h.names.of(p.sym)} = static_cast<{kind}>({told[p.sym.name]});"

    def three(es: tuple[Expr, Expr, Expr]) -> str:
        return ", ".join(h.x.text(e) for e in es)

    shared = h.x.piece(g.shared).at(6)
    same = f"is(given_.grid, {three(g.grid)}) && is(given_.block, {three(g.block)})"
    same += f" && given_.shared == std::size_t({shared})"
    yield f"if (!({same})) return false;  // another launch than the one that was tuned"


def _launch(built: Built) -> list[str]:
    """``launch(kernel, instances, config, arguments...)`` for any instance of the kernel."""
    lines = [
        "// Launches the tuned kernel that stands for `kernel` in this launch, or `kernel` as it is. `tuned`: the",
        "// instances that were tuned, in order.",
        "template <typename... P>",
        "void launch(void (*kernel)(P...), std::initializer_list<const void*> tuned, Config given,",
        "            typename same<P>::type... args) {",
    ]
    for k in range(len(built.artefact.instances)):
        run = f"run{built.artefact.tag(k)}"
        lines.append(f"  if (id(kernel) == tuned.begin()[{k}] && called({run}, given, args...)) return;")
    return [*lines, "  kernel<<<given.grid, given.block, given.shared, given.stream>>>(args...);", "}", ""]


def _readme(a: Artefact, source: str, header: str, count: int) -> str:
    lines = [
        f"# {a.name} in {source}", "",
        f"1. In the folder of your `{source}`: `git apply PATH/tuned.patch`; or copy `{source}` and `{header}` over it",
        f"2. Build as before (`nvcc {nvcc_flags(a)}`): {count} launch{'es' if count > 1 else ''} of the file call "
        "`launch` of the header; your kernel stays, and runs wherever no tuned one may",
        "3. Run your own tests: the results are those of verification, and `ktc replay` of the recipe repeats it",
        "", "## What runs", "", *(f"- {line}" for line in what_runs(a, in_one_file=True)), "",
        f"Written by ktc{''.join(f'; {k} {v}' for k, v in a.about.items())}.", "",
    ]  # fmt: skip
    return "\n".join(lines)
