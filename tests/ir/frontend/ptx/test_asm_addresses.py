"""PTX that reaches memory by address is carried whole: text, operands, clobbers; no pass touches such a kernel."""

from __future__ import annotations

import pytest

from ktc.backends import emit
from ktc.backends.base import CompileFailure
from ktc.backends.compile_check import check_compile
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.nodes import InlineAsm
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.verifier import check
from ktc.ir.walk import walk
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script

COPY = r"""
template <typename T>
__device__ unsigned int place(T* p) { return static_cast<unsigned int>(__cvta_generic_to_shared(p)); }
__global__ void k(unsigned int* y, const __half* x) {
  __shared__ __half s[64 * 8];
  const unsigned int at = place(s + threadIdx.x * 8);
  asm volatile("cp.async.cg.shared.global [%0], [%1], %2;\n" ::"r"(at), "l"(x + threadIdx.x * 8), "n"(16) : "memory");
  asm volatile("{\n\tcp.async.wait_all;\n\t// \"all\"\n}" ::: "memory");
  __syncthreads();
  unsigned int r[2];
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1]) : "r"(place(&s[0]) + 16));
  y[threadIdx.x] = r[0] + r[1];
}
void host(unsigned int* y, const __half* x) { k<<<1, 64>>>(y, x); }
"""


def kernel():
    return load(COPY, name="k.cu")


def test_text_operands_and_clobbers_are_carried() -> None:
    text = emit(kernel(), "cuda").text
    assert '"r"(at), "l"((unsigned long long)&x[threadIdx.x * 8]), "n"(16) : "memory"' in text
    assert "__cvta_generic_to_shared(&s[threadIdx.x * 8])" in text
    assert r'asm volatile("{\n\tcp.async.wait_all;\n\t// \"all\"\n}" : : : "memory");' in text
    assert [s.memory for s in walk(kernel().body) if isinstance(s, InlineAsm)] == [True, True, False]


def test_the_compiler_takes_it() -> None:
    try:
        assert check_compile(emit(kernel(), "cuda"), "sm_90", "cubin").tool
    except CompileFailure as e:
        pytest.fail(e.log)
    except KtcError as e:
        pytest.skip(e.message)


def test_the_text_form_reads_back() -> None:
    text = print_kernel(kernel())
    assert print_kernel(parse_kernel(text)) == text and text.count(" memory ") == 2
    again = load(emit(kernel(), "cuda").text, name="again.cu", kernel="k")
    assert emit(again, "cuda").text.partition("__global__")[2] == emit(kernel(), "cuda").text.partition("__global__")[2]


def test_no_pass_touches_it() -> None:
    done = apply_script(kernel(), parse_script("fast-math{fns=exp}"))
    assert done.refused is not None and done.refused.code == "E-POINTER-VALUE" and done.refused.locs[0].line == 6


@pytest.mark.parametrize("target", ["hip", "opencl"])
def test_other_languages_refuse_with_the_place(target: str) -> None:
    with pytest.raises(KtcError) as caught:
        emit(kernel(), target)
    assert caught.value.code == "E-BACKEND-RAW" and caught.value.loc is not None


def test_the_interpreter_refuses() -> None:
    import numpy as np

    with pytest.raises(KtcError) as caught:
        run(kernel(), {"y": np.zeros(64, np.uint32), "x": np.zeros(512, np.float16)})
    assert caught.value.code == "E-INTERP-UNSUPPORTED"


def test_the_shared_address_of_a_variable_is_refused() -> None:
    body = "unsigned int v = 1; y[0] = (unsigned int)__cvta_generic_to_shared(&v);"
    with pytest.raises(KtcError) as caught:
        load(f"__global__ void k(unsigned int* y) {{ {body} }}", name="k.cu")
    assert caught.value.code == "E-UNSUPPORTED-POINTER" and caught.value.loc.col > 40


def test_dynamic_shared_memory_with_an_address_keeps_its_declared_type() -> None:
    body = """extern __shared__ char raw[];
      const int at = (int)(unsigned long long)__cvta_generic_to_shared(raw);
      float* f = reinterpret_cast<float*>(raw);
      f[threadIdx.x] = 1.0f;
      asm volatile("st.shared.b32 [%0], %1;" :: "r"(at + 4), "r"(3) : "memory");
      y[threadIdx.x] = f[threadIdx.x];"""
    source = f"__global__ void k(float* y) {{ {body} }}\nvoid host(float* y) {{ k<<<1, 64, 1024>>>(y); }}\n"
    taken = load(source, name="k.cu")
    check(taken)
    text = emit(taken, "cuda").text
    assert "__cvta_generic_to_shared(&raw[0])" in text and text.count("__shared__") == 1


def test_nvvms_own_name_for_a_shared_address_gives_32_bits(cu) -> None:
    text = """extern "C" { __device__ unsigned __nvvm_get_smem_pointer(void*); }
    __global__ void k(unsigned long long* y) { __shared__ int s[64]; s[threadIdx.x] = 7; __syncthreads(); int v;
      asm volatile("ld.volatile.shared.b32 %0, [%1];" : "=r"(v) : "r"(__nvvm_get_smem_pointer(&s[63 - threadIdx.x])));
      y[threadIdx.x] = v + sizeof(__nvvm_get_smem_pointer(s)); }"""
    text = emit(cu(text), "cuda").text
    assert '"r"((unsigned)__cvta_generic_to_shared(&s[63 - threadIdx.x]))' in text and "v + 4;" in text
