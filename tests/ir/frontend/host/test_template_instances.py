"""Which of a template kernel's instances come first."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import template_arguments

DISPATCHED = """#include <ATen/Dispatch.h>
template <typename T, typename index_t> __global__ void k(T* x, const index_t* at) { x[at[threadIdx.x]] += T(1); }
void go(at::Tensor x, at::Tensor at) {
  AT_DISPATCH_ALL_TYPES(x.scalar_type(), "k", [&] {
    k<scalar_t, INDEX><<<1, 32>>>(x.data_ptr<scalar_t>(), at.data_ptr<INDEX>());
  });
}
"""


@pytest.mark.parametrize("index", ["int", "int64_t"])
def test_elements_that_may_be_any_number_are_floats_first(tmp_path, index: str) -> None:
    path = tmp_path / "k.cu"
    path.write_text(DISPATCHED.replace("INDEX", index))
    found = [a["T"] for a in template_arguments(str(path), guesses=False)]
    assert found[:3] == ["float", "int", "long long"]
    assert {*found[3:]} == {"double", "short", "signed char", "unsigned char"}


def test_a_launch_in_a_class_whose_base_is_not_declared_says_the_template_arguments(tmp_path) -> None:
    text = """
template <typename T> __global__ void k(T* x) { x[threadIdx.x] += T(1); }
struct Shared { typedef double real; };
template <typename BASE> class Objective : public BASE, public NotDeclared, public lib::Function<Objective<BASE>> {
  AlsoNot member_;
  void go(real* x) { k<real><<<1, 32>>>(x); }
};
template class Objective<Shared>;
"""
    path = tmp_path / "k.cu"
    path.write_text(text)
    assert next(template_arguments(str(path), guesses=False)) == {"T": "double"}
