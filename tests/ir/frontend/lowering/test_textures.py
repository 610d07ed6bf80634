"""Textures, surfaces, printf, traps and clocks: typed, interpreted, printed, or refused with a place."""

from __future__ import annotations

import numpy as np
import pytest

from ktc import backends
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.types import U64, Ptr
from ktc.ir.verifier import verify

IMAGE = np.arange(48, dtype=np.float32).reshape(6, 8)


def kernel_of(body: str, params: str = "float* out, cudaTextureObject_t t", head: str = "", threads: int = 8):
    names = ", ".join(p.split()[-1].lstrip("*") for p in params.split(","))
    text = (
        f"{head}\n__global__ void k({params}) {{\n {body} }}\nvoid host({params}) {{ k<<<1, {threads}>>>({names}); }}\n"
    )
    kernel = load(text, name="k.cu")
    assert verify(kernel) == []
    again = parse_kernel(print_kernel(kernel))
    assert print_kernel(again) == print_kernel(kernel)
    return kernel


def out_of(kernel, **args):
    result = run(kernel, {"out": np.zeros(8, np.float32), **args})
    assert result.findings == []
    return result.outputs["out"]


def test_fetches_read_the_nearest_element_and_clamp():
    k = kernel_of("out[threadIdx.x] = tex2D<float>(t, threadIdx.x + 0.5f, 2.5f) + tex2D<float>(t, -3.f, 100.f);")
    assert out_of(k, t=IMAGE).tolist() == (IMAGE[2] + IMAGE[5, 0]).tolist()


def test_fetches_of_vectors_and_bytes():
    texels = np.arange(32, dtype=np.uint8).reshape(8, 4)
    k = kernel_of("uchar4 v = tex1D<uchar4>(t, threadIdx.x + 0.5f); out[threadIdx.x] = v.x + 2 * v.w;")
    assert out_of(k, t=texels).tolist() == (texels[:, 0] + 2.0 * texels[:, 3]).tolist()
    assert "tex1D<uchar4>(t, " in backends.emit(k, "cuda").text


def test_objects_travel_through_variables_and_functions():
    head = "__device__ float at(cudaTextureObject_t t, int i) { return tex1Dfetch<float>(t, i); }"
    k = kernel_of(
        "cudaTextureObject_t u = threadIdx.x < 100 ? t : s; out[threadIdx.x] = at(u, threadIdx.x);",
        "float* out, cudaTextureObject_t t, cudaTextureObject_t s", head,
    )  # fmt: skip
    assert out_of(k, t=IMAGE.ravel(), s=IMAGE.ravel()).tolist() == list(range(8))


def test_a_texture_reference_becomes_a_parameter():
    head = "texture<float4, 2, cudaReadModeElementType> img;"
    k = kernel_of("out[threadIdx.x] = tex2D(img, threadIdx.x, 0).y;", "float* out", head)
    assert [(p.sym.name, p.sym.type) for p in k.params][1:] == [("img", U64)]
    texels = np.arange(32, dtype=np.float32).reshape(1, 8, 4)
    assert out_of(k, img=texels).tolist() == texels[0, :, 1].tolist()
    assert "cudaTextureObject_t img" in backends.emit(k, "cuda").text
    assert "hipTextureObject_t img" in backends.emit(k, "hip").text


def test_a_reference_to_linear_memory_becomes_a_buffer_everywhere():
    head = "texture<float, 1, cudaReadModeElementType> lin;"
    k = kernel_of("out[threadIdx.x] = tex1Dfetch(lin, 7 - threadIdx.x);", "float* out", head)
    assert isinstance(k.params[1].sym.type, Ptr) and k.params[1].readonly
    assert out_of(k, lin=IMAGE.ravel()).tolist() == list(range(7, -1, -1))
    for target in ("cuda", "hip", "opencl", "numba"):
        assert "tex1Dfetch" not in backends.emit(k, target).text


def test_surfaces():
    body = "float v; surf2Dread(&v, s, threadIdx.x * 4, 1); surf2Dwrite(v + 1, s, threadIdx.x * sizeof(float), 0);"
    k = kernel_of(body + " out[threadIdx.x] = surf2Dread<float>(s, threadIdx.x * 4, 0, cudaBoundaryModeClamp);",
                  "float* out, cudaSurfaceObject_t s")  # fmt: skip
    assert out_of(k, s=IMAGE).tolist() == (IMAGE[1] + 1).tolist()
    text = backends.emit(k, "cuda").text
    assert (
        "surf2Dread<float>(s, (int)(threadIdx.x * 4), 0, cudaBoundaryModeClamp)" in text
        and "cudaSurfaceObject_t s" in text
    )
    k = kernel_of("out[0] = surf1Dread<float>(s, 4 * 100);", "float* out, cudaSurfaceObject_t s", threads=1)
    found = run(k, {"out": np.zeros(8, np.float32), "s": IMAGE[0]}).findings
    assert [f.kind for f in found] == ["out-of-bounds"]


def test_texture_objects_are_refused_with_a_place():
    k = kernel_of("out[threadIdx.x] = tex2D<float>(t, 0.f, 0.f);")
    with pytest.raises(KtcError) as error:
        backends.emit(k, "numba")
    assert error.value.loc is None or error.value.loc.line == 3


def test_printf_keeps_its_arguments_promotions():
    body = r'if (t == 0) printf("%f %lld %5llu %d %s\n", out[1], (long long)t, 3ULL, (char)65, "end"); out[0] = 1;'
    k = kernel_of(body, "float* out, int t", threads=1)
    assert out_of(k, t=0)[0] == 1
    cuda = backends.emit(k, "cuda").text
    assert r'printf("%f %lld %5llu %d %s\n", (double)out[1], (long long)t, 3ULL, 65, "end");' in cuda
    assert r'"%f %ld %5lu %d %s\n"' in backends.emit(k, "opencl").text
    assert 'printf("' in backends.emit(k, "hip").text
    backends.emit(k, "numba")


def test_a_format_that_is_no_literal_is_refused():
    with pytest.raises(KtcError) as error:
        kernel_of("printf(t);", "float* out, const char* t")
    assert error.value.code == "E-UNSUPPORTED-PRINTF" and error.value.loc.line == 3


def test_a_trap_is_a_finding():
    k = kernel_of("if (t > 0) __trap(); out[0] = 1;", "float* out, int t", threads=1)
    assert run(k, {"out": np.zeros(1, np.float32), "t": 0}).findings == []
    assert [f.kind for f in run(k, {"out": np.zeros(1, np.float32), "t": 1}).findings] == ["trap"]


def test_clocks_are_read_where_they_stand_and_have_no_meaning_here():
    k = kernel_of("long long a = clock64(); out[0] = 2; out[1] = clock64() - a;", "float* out", threads=1)
    assert backends.emit(k, "cuda").text.count("clock64()") == 2
    with pytest.raises(KtcError) as error:
        run(k, {"out": np.zeros(2, np.float32)})
    assert error.value.code == "E-INTERP-UNSUPPORTED" and error.value.loc.line == 3


def test_texture_references_as_parameters_of_host_code_do_not_hide_the_template() -> None:
    text = """
namespace p {
class Binder {
 public:
  template <class T, enum cudaTextureReadMode mode> Binder(const T& a, const struct texture<T, 2, mode>& t) : ref(&t) {}
 private:
  const struct textureReference* ref;
};
namespace device {
texture<unsigned short, 2, cudaReadModeElementType> depth;
__global__ void k(int* o) { o[threadIdx.x] = tex2D(depth, threadIdx.x, 3); }
}
}
"""
    assert [p.sym.name for p in load(text).params] == ["o", "depth"]
