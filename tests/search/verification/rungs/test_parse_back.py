"""Printed text read back: right text is proved right, one wrong token is seen."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.backends import emit
from ktc.ir.frontend import load
from ktc.ir.text import parse_kernel
from ktc.search.verification.rungs.normal_form import normal
from ktc.search.verification.rungs.parse_back import difference, parse_back, read_back, restructured
from tests.mutation.operators.text_operators import C_LIKE
from tests.mutation.operators.text_tokens import function_start, tokens

SCALE = """
kernel scale(y: f32* restrict, x: f32 const* restrict, n: i32, a: f32)
  launch grid(cdiv(n, 256)) block(256)
  let i: i32 = i32(blockIdx.x) * 256 + i32(threadIdx.x)
  if i < n
    y[i] = a * x[i] + 1.0
"""


@pytest.mark.parametrize("target", ("cuda", "hip", "opencl"))
def test_right_text_denotes_its_kernel(target: str) -> None:
    assert parse_back(parse_kernel(SCALE), target).status == "pass"


@pytest.mark.parametrize("target", ("cuda", "opencl"))
def test_every_mutated_token_is_seen_or_harmless(target: str) -> None:
    code = emit(parse_kernel(SCALE), target)
    span = tokens(code.text, function_start(code.text, code.entry))
    seen = 0
    for op in C_LIKE:
        for text in op.change(span):
            try:
                read = read_back(dataclasses.replace(code, text=text))
            except Exception:
                continue  # not a program
            seen += bool(difference(code.kernel, read))
    assert seen > 15


def test_a_wrong_sign_is_shown() -> None:
    code = emit(parse_kernel(SCALE), "cuda")
    wrong = dataclasses.replace(code, text=code.text.replace("+ 1.0f", "- 1.0f"))
    assert wrong.text != code.text
    assert "is printed as" in difference(code.kernel, read_back(wrong))


def test_storage_of_the_emitters_own_is_named() -> None:
    """What no rule undoes: small floats in HIP, and in OpenCL what their bits are used for."""
    small = parse_kernel(SCALE.replace("f32 const*", "bf16 const*").replace("x[i]", "f32(x[i])"))
    assert restructured(small, "hip") == "bf16" and not restructured(small, "opencl")
    bits = parse_kernel(SCALE.replace("f32 const*", "f16 const*").replace("x[i]", "f32(x[i] as.bit u16)"))
    assert restructured(bits, "opencl") == "f16" and not restructured(bits, "cuda")


FLAGS = """\
kernel choose(out: f32* restrict, keep: bool const* restrict, x: f32 const* restrict, n: i32)
  launch grid((n + 31) / 32) block(32)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    out[i] = keep[i] ? x[i] : 0.0
"""


def test_flags_are_bytes_in_a_language_without_them() -> None:
    """No OpenCL kernel takes a pointer to ``bool``: it was another signature, and all kernels with masks were wrong."""
    kernel = parse_kernel(FLAGS)
    assert parse_back(kernel, "opencl").status == "pass" and parse_back(kernel, "cuda").status == "pass"
    code = emit(kernel, "opencl")
    wrong = dataclasses.replace(code, text=code.text.replace("keep[i]", "!keep[i]"))
    assert wrong.text != code.text and difference(code.kernel, read_back(wrong))


@pytest.mark.parametrize("value", ["true", "bool(x[i])", "x[i] < 1.0", "bool(n)", "keep[i] && x[i] > 0.0"])
def test_flags_are_stored_as_bytes_that_are_0_or_1(value: str) -> None:
    stored = parse_kernel(
        FLAGS.replace("bool const*", "bool*").replace("    out[i] =", f"    keep[i] = {value}\n    out[i] =")
    )
    assert parse_back(stored, "opencl").status == "pass" and parse_back(stored, "cuda").status == "pass"
    code = emit(stored, "opencl")
    kept = next(line for line in code.text.splitlines() if "keep[i] =" in line)
    for wrong_line in (f"    keep[i] = !({kept.partition('=')[2].strip(' ;')});", "    keep[i] = n;"):
        wrong = dataclasses.replace(code, text=code.text.replace(kept, wrong_line))
        assert wrong.text != code.text and difference(code.kernel, read_back(wrong))


FLAG = """
__global__ void add(const float* a, float* o, int n, bool doubled) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = doubled ? 2 * a[i] : a[i];
}
void run(const float* a, float* o, int n) { add<<<(n + 255) / 256, 256>>>(a, o, n, true); }
"""


def test_a_flag_by_value_is_a_byte() -> None:
    kernel = load(FLAG, name="k.cu")
    assert parse_back(kernel, "opencl").status == "pass"
    code = emit(kernel, "opencl")
    assert "uchar doubled" in code.text
    for right, wrong in (("doubled ?", "!doubled ?"), ("uchar doubled", "int doubled")):
        changed = dataclasses.replace(code, text=code.text.replace(right, wrong))
        assert changed.text != code.text and difference(code.kernel, read_back(changed))


ATOMICS = """
__global__ void f(const float* x, float* sums, double* wide, unsigned* ring, float* last) {
  __shared__ float part;
  const int t = threadIdx.x;
  if (t == 0) part = 0;
  __syncthreads();
  atomicAdd(&part, x[t]);
  atomicAdd(&sums[t], x[t]);
  atomicAdd(wide, 1.0);
  atomicInc(ring, 7u);
  atomicExch(last, part);
}
void go(const float* x, float* s, double* w, unsigned* r, float* l) { f<<<1, 64>>>(x, s, w, r, l); }
"""


def test_atomics_that_opencl_lacks_are_read_as_what_they_are() -> None:
    """They are loops over a word of the same bits; read literally, every buffer with one had another type."""
    kernel = load(ATOMICS, name="k.cu")
    assert parse_back(kernel, "opencl").status == "pass"
    code = emit(kernel, "opencl")
    for right, wrong in (
        ("const float next = x + v;", "const float next = x - v;"),
        ("x >= v ? 0 : x + 1", "x > v ? 0 : x + 1"),
        ("atomic_add_float_global(&sums", "atomic_add_float_global(&last"),
        ("atomic_add_double_global(&wide[0], 1.0)", "atomic_add_double_global(&wide[0], 2.0)"),
    ):
        changed = dataclasses.replace(code, text=code.text.replace(right, wrong))
        assert changed.text != code.text and difference(code.kernel, read_back(changed)), wrong


@pytest.mark.parametrize("language", ["cuda", "hip", "opencl"])
def test_an_operand_of_a_loop_is_read_back_where_it_stood(language: str) -> None:
    kernel = parse_kernel("""kernel f(o: f32*, x: f32 const*, old: f32*)
  launch grid(1) block(64)
  let t: i32 = i32(threadIdx.x)
  atomic gt o[0], x[t] * 2.0
  var before: f32
  before = atomic mul o[1], x[t + 1]
  old[t] = before
""")
    assert parse_back(kernel, language).status == "pass"


VECTORS = """
kernel k(y: f32* restrict align 16, x: f32 const* restrict align 16, n: i32)
  launch grid(cdiv(n, 2048)) block(256)
  let i: i64 = i64(i32(threadIdx.x) * 4) + i64(blockIdx.x) * 2048
  array x_vec: f32x4[2]
  for u in 0..2 unroll
    x_vec[u] = x[i + u * 1024 +: 4]
  for u_1 in 0..2 unroll
    var y_vec: f32x4
    for v in 0..4 unroll
      y_vec[v] = x_vec[u_1, v] + shfl_up(x_vec[u_1, v], v)
    y[i + u_1 * 1024 +: 4] = y_vec
"""


@pytest.mark.parametrize("target", ("cuda", "hip", "opencl"))
def test_vectors_are_read_as_vectors(target: str) -> None:
    kernel = parse_kernel(VECTORS.replace("shfl_up(x_vec[u_1, v], v)", "x_vec[u_1, 0]"))
    assert parse_back(kernel, target).status == "pass"


def test_lanes_of_shuffles_and_blocks_of_the_grid_count_alike_with_and_without_sign() -> None:
    counted = "for p = i32(threadIdx.y); p < gridDim.y as i32; p + 4\n    y[p] = x[p]"
    for kernel in (VECTORS, SCALE.replace("if i < n\n    y[i] = a * x[i] + 1.0", counted)):
        assert parse_back(parse_kernel(kernel), "cuda").status == "pass"


def test_another_lane_or_another_width_is_another_program() -> None:
    code = emit(parse_kernel(VECTORS), "cuda")
    for right, wrong in (("[u][v] + ", "[u][0] + "), ("load_vec<4>(&x[i + u", "load_vec<4>(&x[u")):
        text = code.text.replace(right, wrong)
        assert text != code.text and difference(code.kernel, read_back(dataclasses.replace(code, text=text)))


PLAIN = """kernel k(x: f32*, n: u32)
  launch grid(1) block(32)
  let t: i32 = threadIdx.x as i32
  if true
    x[t] = 1.0
  if n + t as u32 == 0_u32
    x[t] = x[t] + 1.0
"""


@pytest.mark.parametrize("target", ["cuda", "hip", "opencl"])
def test_texts_say_no_condition_that_is_always_true(target: str) -> None:
    """Where they did not compare, the text took the ladder once more, as long as the kernel itself."""
    kernel = parse_kernel(PLAIN)
    assert parse_back(kernel, target).status == "pass"


def test_numbers_are_equal_with_and_without_sign_and_less_only_with_one() -> None:
    same = [normal(parse_kernel(PLAIN.replace("n + t as u32 == 0_u32", c))) for c in (
        "n + t as u32 == 0_u32", "(n + t as u32) as i32 == 0")]  # fmt: skip
    assert same[0] == same[1]
    less = [normal(parse_kernel(PLAIN.replace("n + t as u32 == 0_u32", c))) for c in (
        "n + t as u32 < 9_u32", "(n + t as u32) as i32 < 9")]  # fmt: skip
    assert less[0] != less[1]
    never = normal(parse_kernel(PLAIN.replace("if true", "if false")))
    assert never != same[0]


WIDENED = """
kernel known(y: f32* restrict, x: f32 const* restrict, dims: u64 const* restrict)
  launch grid(1) block(64)
  var t: u64 = 0_u64
  for d: u32 = 0_u32; u64(d) < 3_u64; d + 1_u32
    t += dims[2_u64 - u64(d)]
  y[i32(threadIdx.x)] = x[5_i64] * f32(t)
"""


@pytest.mark.parametrize("target", ("cuda", "hip", "opencl"))
def test_numbers_are_compared_and_index_in_any_type_that_has_them(target: str) -> None:
    assert parse_back(parse_kernel(WIDENED), target).status == "pass"
    other = normal(parse_kernel(WIDENED.replace("3_u64", "4_u64")))
    assert normal(parse_kernel(WIDENED)) != other
    assert normal(parse_kernel(WIDENED.replace("u64(d) < 3_u64", "d < 3_u32"))) == normal(parse_kernel(WIDENED))
    negative = WIDENED.replace("d: u32", "d: i32").replace("0_u32", "0").replace("1_u32", "1")
    wrapped = negative.replace("u64(d) < 3_u64", "d < 3")  # of a negative number they say otherwise
    assert normal(parse_kernel(negative)) != normal(parse_kernel(wrapped))


def test_a_word_taken_for_unsigned_is_converted() -> None:
    """The bits of an integer of another sign, and the integer converted to it, are one number."""
    taken = normal(parse_kernel(_stored("(x[t] as.bit u32 >> 4_u32) as i32"))).body
    assert taken == normal(parse_kernel(_stored("(u32(x[t]) >> 4_u32) as i32"))).body
    assert taken != normal(parse_kernel(_stored("(x[t] >> 4) as i32"))).body


def test_what_a_variable_holds_of_a_thread_s_number_is_no_less_than_0() -> None:
    """``u32(t) / 2u`` of a thread's number is ``t / 2``; of a number that a caller gives it is not."""
    of_thread = [normal(parse_kernel(_stored(e))).body for e in ("x[i32(u32(t) / 2_u32)]", "x[t / 2]")]
    assert of_thread[0] == of_thread[1]
    given = [normal(parse_kernel(_stored(e))).body for e in ("x[i32(u32(n) / 2_u32)]", "x[n / 2]")]
    assert given[0] != given[1]


def test_some_bits_of_a_number_are_a_number_of_either_sign() -> None:
    masked = [normal(parse_kernel(_stored(f"x[{e}]"))).body for e in ("i32(f32(u32(n & 15)))", "i32(f32(n & 15))")]
    assert masked[0] == masked[1]
    whole = [normal(parse_kernel(_stored(f"x[{e}]"))).body for e in ("i32(f32(u32(n)))", "i32(f32(n))")]
    assert whole[0] != whole[1]


def _stored(value: str) -> str:
    return f"""
kernel k(y: i32* restrict, x: i32 const* restrict, n: i32)
  launch grid(1) block(64)
  let t: i32 = i32(threadIdx.x)
  y[t] = {value}
"""
