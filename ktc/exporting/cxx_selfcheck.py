"""The self-test of a C++ library: a program that compares each variant with the original on small inputs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources

from ktc.backends.c_family.line_layout import wrap
from ktc.ir.types import Ptr

from .building import Built
from .cxx_kernels import Api, Host
from .example_data import Case, cases
from .python_packages import Files

DATA = "selftest.bin"


def selftest_files(built: Built, api: Api, hosts: Sequence[Host]) -> Files:
    """The program, what it includes, and the contents of its buffers."""
    found = cases(built)
    data = bytearray()
    lines = [
        f"// Compares every tuned kernel of {built.artefact.name} with the original one on small inputs.",
        *(["#define KTC_HIP"] if api.name == "hip" else []),
        f'#include "{built.artefact.name}.h"', '#include "selfcheck_support.h"', "", "int main() {",
        f'  const auto data = selftest::read("{DATA}");', "  int failed = 0;",
    ]  # fmt: skip
    for case in found:
        lines += _case(built, case, hosts[case.instance], data)
    lines += [
        '  std::printf("%d comparisons failed\\n", failed);', "  return failed == 0 ? 0 : 1;", "}", "",
    ]  # fmt: skip
    support = resources.files("ktc.exporting.shipped").joinpath("selfcheck_support.h").read_text(encoding="utf-8")
    return {f"selftest.{api.suffix}": "\n".join(lines), "selfcheck_support.h": support, DATA: bytes(data)}


def _case(built: Built, case: Case, h: Host, data: bytearray) -> list[str]:
    instance = built.artefact.instances[case.instance]
    written = {p.name for p in built.artefact.parameters if p.role in ("out", "inout")}
    lines = ["  {"]
    names: list[str] = []
    args: list[str] = []
    for n, a in case.buffers.items():
        if a is None:
            continue
        kind, flag = instance.dtypes[n], "true" if n in written else "false"
        size = a.nbytes
        lines.append(f'    selftest::Buffer b{len(names)}("{n}", "{kind}", {flag}, data, {len(data)}, {size});')
        names.append(n)
        data += a.tobytes()
    for p in h.params:
        if isinstance(p.sym.type, Ptr):
            kind = h.elem(p)
            at = f"b{names.index(p.sym.name)}.device" if p.sym.name in names else "nullptr"
            args.append(f"static_cast<{kind}*>({at})")
        else:
            args.append(f"({h.x.d.type_name(p.sym.type)}){case.scalars[p.sym.name]!r}")
    call = f"return {built.artefact.name}_variant({', '.join(['which', *args, '0'])});"
    buffers = ", ".join(f"&b{k}" for k in range(len(names)))
    lines.append(f"    const auto launch = [&](int which) {{ {call} }};")
    compared = f"selftest::compare({json.dumps(case.name)}, {{{buffers}}}, {len(instance.variants)}, launch)"
    lines += [f"    failed += {compared};", "  }"]
    return [out for line in lines for out in wrap(line, "")]
