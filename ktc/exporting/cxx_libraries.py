"""C++ exports with a function of their own: a header that declares it, a file that holds the kernels, and CMake."""

from __future__ import annotations

import json
from collections.abc import Callable

from ktc.backends.c_family.line_layout import wrap

from .artefact import Artefact
from .building import Built
from .cxx_kernels import (
    APIS,
    Api,
    common,
    conditional_sections,
    forced,
    host_of,
    includes,
    instance_code,
    launching,
    namespace_of,
    tried,
)
from .cxx_selfcheck import selftest_files
from .host_sizes import without_host_sizes
from .python_packages import Files, what_runs


def library(api_name: str) -> Callable[[Built], Files]:
    """The writer of a library for ``cuda`` or ``hip``."""
    return lambda built: _files(without_host_sizes(built), APIS[api_name])


def _files(built: Built, api: Api) -> Files:
    a = built.artefact
    return {
        f"{a.name}.h": _header(built, api),
        f"{a.name}.{api.suffix}": _source(built, api),
        "CMakeLists.txt": _cmake(a, api),
        **selftest_files(built, api, [host_of(built.whole(i.original), api) for i in a.instances]),
        "README.md": _readme(a, api, _signatures(built, api)),
        "kernel.json": json.dumps(a.to_json(), indent=1) + "\n",
    }  # fmt: skip


def _cmake(a: Artefact, api: Api) -> str:
    values = {
        "NAME": a.name,
        "ARCHITECTURES": _architectures(a),
        "DRIVER": " CUDA::cuda_driver" if any(c.matrices for c in a.codes) else "",
    }
    text = CMAKE_CUDA if api.name == "cuda" else CMAKE_HIP
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def exact_architectures(a: Artefact) -> list[str]:
    """The architectures whose instructions no other one has, that some kernel uses: ``90a``."""
    return sorted({c.arch.removeprefix("sm_") for c in a.codes if c.arch[-1:].isalpha()})


def _architectures(a: Artefact) -> str:
    return ";".join(exact_architectures(a)) or "native"


def nvcc_flags(a: Artefact) -> str:
    """What nvcc is called with for this machine's GPU, or for the one architecture that a kernel needs."""
    chosen = [f"-gencode arch=compute_{n},code=sm_{n}" for n in exact_architectures(a)]
    return " ".join(["-std=c++17", *(chosen or ["-arch=native"])])


def _signatures(built: Built, api: Api, suffix: str = "") -> list[str]:
    a = built.artefact
    found = []
    for i in a.instances:
        h = host_of(built.whole(i.original), api)
        first = "int which" if suffix else ""
        params = ", ".join(filter(None, [first, h.declared(), f"{api.name}Stream_t stream"]))
        found.append(f"{api.name}Error_t {a.name}{suffix}({params})")
    return found


def _header(built: Built, api: Api) -> str:
    a = built.artefact
    texts = list(built.texts.values())
    own = [line for line in includes(texts, api) if ".h>" in line]
    lines = [
        f"// {a.name}: the tuned kernel where it was measured to be faster, the original elsewhere. See README.md.",
        "#pragma once", *own, "", *(line for s in conditional_sections(texts) for line in [*s.splitlines(), ""]),
    ]  # fmt: skip
    for signature in _signatures(built, api):
        lines += wrap(f"{signature};", "")
    lines += [
        "",
        f"// For tests: the variant `which` (-1: the original), or {api.name}ErrorNotSupported where it may not run.",
    ]
    for signature in _signatures(built, api, "_variant"):
        lines += wrap(f"{signature};", "")
    return "\n".join([*lines, ""])


def _source(built: Built, api: Api) -> str:
    a = built.artefact
    texts = list(built.texts.values())
    wholes = [built.whole(c) for i in a.instances for c in (i.original, *i.variants)]
    lines = [f"// {a.name}: written by ktc. See README.md.", f'#include "{a.name}.h"', ""]
    lines += [*includes(texts, api), "", "namespace {", "", *common(wholes, api)]
    for k, i in enumerate(a.instances):
        tag = a.tag(k)
        original = built.whole(i.original)
        lines += namespace_of(original, f"original{tag}")
        lines += launching(original, api, f"launch_original{tag}", f"original{tag}", len(i.variants))
        lines += instance_code(i, built.whole_texts, api, tag)
    lines += ["}  // namespace", ""]
    tests = _signatures(built, api, "_variant")
    for k, (i, signature) in enumerate(zip(a.instances, _signatures(built, api))):
        tag = a.tag(k)
        h = host_of(built.whole(i.original), api)
        lines += [*wrap(f"{signature} {{", ""), *tried(i, built.whole_texts, api, tag, h)]
        call = ", ".join(filter(None, [h.passed(), "stream"]))
        lines += [*wrap(f"return launch_original{tag}({call});", "  "), "}", ""]
        lines += [*wrap(f"{tests[k]} {{", ""), *forced(i, built.whole_texts, api, tag, h)]
        lines += [
            *wrap(f"return which == -1 ? launch_original{tag}({call}) : {api.name}ErrorNotSupported;", "  "),
            "}",
            "",
        ]
    return "\n".join(lines)


CMAKE_CUDA = """\
# add_subdirectory(this folder), then target_link_libraries(YOUR_TARGET PRIVATE @NAME@)
cmake_minimum_required(VERSION 3.18)
set(given "${CMAKE_CUDA_ARCHITECTURES}")
project(@NAME@ LANGUAGES CXX CUDA)

if(given MATCHES "^(52|75)?$")  # not set, or as compilers have it where nobody does
  set(CMAKE_CUDA_ARCHITECTURES @ARCHITECTURES@)
endif()
find_package(CUDAToolkit REQUIRED)
add_library(@NAME@ STATIC @NAME@.cu)
target_compile_features(@NAME@ PUBLIC cxx_std_17 PRIVATE cuda_std_17)
target_include_directories(@NAME@ PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(@NAME@ PUBLIC CUDA::cudart@DRIVER@)
"""

CMAKE_HIP = """\
# add_subdirectory(this folder), then target_link_libraries(YOUR_TARGET PRIVATE @NAME@)
cmake_minimum_required(VERSION 3.21)
project(@NAME@ LANGUAGES CXX HIP)

add_library(@NAME@ STATIC @NAME@.hip)
set_source_files_properties(@NAME@.hip PROPERTIES LANGUAGE HIP)
target_compile_features(@NAME@ PUBLIC cxx_std_17)
target_include_directories(@NAME@ PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
"""


def _readme(a: Artefact, api: Api, signatures: list[str]) -> str:
    compiler = f"nvcc {nvcc_flags(a)}" if api.name == "cuda" else "hipcc -std=c++17"
    build = f"{compiler} selftest.{api.suffix} {a.name}.{api.suffix} -o selftest"
    build += " -lcuda" if any(c.matrices for c in a.codes) else ""
    driver = ", and link with -lcuda" if any(c.matrices for c in a.codes) else ""
    native = api.name == "cuda" and not exact_architectures(a)
    without = " (on a machine without a GPU, with `-DCMAKE_CUDA_ARCHITECTURES=90` or yours)" if native else ""
    lines = [
        f"# {a.name} for {api.name.upper()} C++", "",
        f"1. `add_subdirectory` this folder and link the target `{a.name}`{without}; or "
        f"`{compiler} -c {a.name}.{api.suffix}`{driver}",
        f"2. `#include \"{a.name}.h\"`, then call, in place of the launch:", "",
        "   ```cpp", *(f"   {s};" for s in signatures), "   ```", "",
        "3. Pointers are to memory of the current device; the call enqueues in `stream` and returns an error code. "
        f"`{build} && ./selftest` compares the tuned kernels with the original one",
        "",
        "## What runs", "", *(f"- {line}" for line in what_runs(a, in_one_file=True)), "",
        "Working memory, where a tuned kernel has some, is kept for each device and stream; while a stream is captured "
        "into a graph such a kernel is not launched, and the original runs.", "",
        f"Written by ktc{''.join(f'; {k} {v}' for k, v in a.about.items())}.", "",
    ]  # fmt: skip
    return "\n".join(lines)
