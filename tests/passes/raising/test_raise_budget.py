"""What raising's check may cost: counted in work of the interpreter, so that no verdict depends on the machine."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.nodes import Par
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused, Result
from ktc.passes.raising import raise_
from ktc.passes.raising.check import chosen_sets, exact_check
from ktc.passes.raising.check import work_budget as check
from ktc.passes.raising.check.constant_sizes import LONG, of_any_size
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.check.invented_arguments import MOST_ELEMENTS, buffers
from ktc.passes.raising.check.run_length import statements
from ktc.passes.raising.check.small_launches import launched, least_statements
from ktc.passes.raising.check.work_budget import Budget
from ktc.passes.raising.raise_ import Raise
from tests.passes.raising.reduction_sources import TREE_BACKWARDS, UNROLLED_WARP

COPY = """
__global__ void k(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
void host(float* y, const float* x, int n) { k<<<(n + 63) / 64, 64>>>(y, x, n); }
"""


def test_a_slow_machine_raises_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second goes by whenever the check looks at the clock."""
    kernel = load(TREE_BACKWARDS, name="source.cu")
    quick = Raise().run(load(TREE_BACKWARDS, name="source.cu"))
    clock = itertools.count()
    monkeypatch.setattr(check.time, "process_time", lambda: float(next(clock)))
    slow = Raise().run(kernel)
    assert isinstance(quick, Result) and isinstance(slow, Result)
    assert slow.notes == quick.notes and next(clock) > 20


def test_what_costs_more_than_the_budget_is_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "CHECK_WORK", 200)
    outcome = Raise().run(load(TREE_BACKWARDS, name="source.cu"))
    assert isinstance(outcome, Refused) and outcome.code == "E-RAISE-BUDGET"
    assert (
        outcome.why == check.too_long() == "not checked within 200 statements of the interpreter, though on small sizes"
    )


def test_what_is_not_raised_is_checked_once_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over ``rows``, the size that its guard asks about, and over ``batch * length``, that its launch has for it."""
    source = """
__global__ void k(float* y, const float* x, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) y[r] = 2.0f * x[r];
}
void host(float* y, const float* x, int batch, int length) {
  k<<<(batch * length + 63) / 64, 64>>>(y, x, batch * length);
}
"""
    monkeypatch.setattr(check, "CHECK_WORK", 20)
    checked = []
    once = Raise._checked
    monkeypatch.setattr(Raise, "_checked", lambda self, kernel, launch: (
        checked.append((kernel.assumptions, launch)), once(self, kernel, launch))[1])  # fmt: skip
    outcome = Raise().run(load(source, name="source.cu"))
    assert isinstance(outcome, Refused) and outcome.code == "E-RAISE-BUDGET"
    assert len(checked) == 2 and checked[0] != checked[1]


def test_buffers_are_not_as_large_as_all_sizes_together() -> None:
    """Numbers that are no extents are among the sizes: what is reached in a buffer is found out by a run."""
    kernel = load(COPY, name="source.cu")
    assert {x.size for x in buffers(kernel, 7, False, 64, {"n": 1000, "mode": 100}).values()} == {200_000}
    assert {x.size for x in buffers(kernel, 7, False, 64, {"n": 1 << 20, "mode": 100}).values()} == {MOST_ELEMENTS}


def test_sizes_below_zero_that_never_end_cost_little() -> None:
    """``i < (blockIdx.x + 1) * n`` is an unsigned comparison: nearly endless for every negative ``n``."""
    reference = Reference(load(UNROLLED_WARP, name="source.cu"))
    assert reference.sets and reference.budget.work < check.CHECK_WORK / 10


def test_a_kernel_is_raised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts of a search begin alike; a kernel of the same text is another one all the same."""
    attempt, raised = Raise._attempt, []
    monkeypatch.setattr(Raise, "_attempt", lambda self, *of: raised.append(of) or attempt(self, *of))
    kernel, other = (load(COPY, name="source.cu") for _ in range(2))
    first = Raise().run(kernel)
    assert isinstance(first, Result)
    assert Raise().run(kernel) is first and len(raised) == 1
    assert Raise().run(other) is not first and len(raised) == 2


def test_values_that_differ_are_said_with_their_statement() -> None:
    """What a guess gets wrong is named by where the source stores it."""
    source = load(COPY, name="source.cu")
    wrong = Raise().run(load(COPY.replace("y[i] = x[i]", "y[i] = x[i] + 1.f"), name="other.cu"))
    assert isinstance(wrong, Result)
    assert Reference(source).differs(wrong.kernel).startswith("source.cu:4:15: y[")


ROUNDS_AT_ONCE = """
kernel fill(y: i32*, x: i32 const*)
  launch grid(1) block(64)
  {}
    {}
      if x[0] < x[t + 1]
        let v: i32 = x[l] + t
        y[t * 700 + l] = v
"""
"""Rounds of a loop around a ``par`` come one after another, those of a loop inside one at once."""


def test_rounds_that_only_the_source_runs_at_once_count_for_the_guess() -> None:
    rounds = "for l in 0..700"
    nests = ("for t in i32(threadIdx.x)..64 step 64", rounds), (rounds, "par t in 0..64")
    source, guess = (parse_kernel(ROUNDS_AT_ONCE.format(*nest)) for nest in nests)
    reference = Reference(source)
    assert reference.differs(guess) == ""
    first, second = (run(k, reference.sets[0], domain="int") for k in (source, guess))
    assert second.steps > max(exact_check.STEPS_OF_A_GUESS * first.steps, check.CHECK_FUEL // 10)


def test_a_guess_cut_off_is_not_called_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_check, "_fuel_of_a_guess", lambda source: 1)
    outcome = Raise().run(load(COPY, name="source.cu"))
    assert isinstance(outcome, Refused) and outcome.code == "E-RAISE-BUDGET"
    assert outcome.why.startswith("not checked: the guessed form did not end within 1 statements, where the source")


ATTEND = """
__global__ void attend(const float* q, const float* k, const float* v, float* o, int s, int d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= s || j >= d) return;
  float top = -1e9f, sum = 0, acc = 0;
  for (int t = 0; t < s; t++) {
    float x = 0;
    for (int e = 0; e < d; e++) x += q[i * d + e] * k[t * d + e];
    if (x > top) { float f = expf(top - x); sum *= f; acc *= f; top = x; }
    float w = expf(x - top);
    sum += w;
    acc += w * v[t * d + j];
  }
  o[i * d + j] = acc / sum;
}
void run(const float* q, const float* k, const float* v, float* o, int s, int d) {
  attend<<<dim3((s + 15) / 16, (d + 15) / 16), dim3(16, 16)>>>(q, k, v, o, s, d);
}
"""
"""Sizes that two nested loops run to."""

BLUR = """
__global__ void mean2d(const float* a, float* o, int w, int h, int r) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float s = 0;
  for (int i = -r; i <= r; i++)
    for (int j = -r; j <= r; j++) {
      int u = min(max(x + j, 0), w - 1), v = min(max(y + i, 0), h - 1);
      s += a[v * w + u];
    }
  o[y * w + x] = s;
}
void run(const float* a, float* o, int w, int h, int r) {
  mean2d<<<dim3((w + 15) / 16, (h + 15) / 16), dim3(16, 16)>>>(a, o, w, h, r);
}
"""

NEAREST = """
constexpr int N = 10000;
__global__ void nearest(const float* __restrict__ p, float* __restrict__ o) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= N) return;
  float best = 1e30f;
  for (int j = 0; j < N; j++)
    if (j != i) best = fminf(best, fabsf(p[j] - p[i]));
  o[i] = best;
}
void run(const float* p, float* o) { nearest<<<(N + 63) / 64, 64>>>(p, o); }
"""

HEAD = """
#define HEAD 64
__global__ void scores(const float* __restrict__ q, const float* __restrict__ k, float* __restrict__ o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float acc[HEAD];
  for (int c = 0; c < HEAD; c++) acc[c] = 0.f;
  for (int j = 0; j <= i; j++)
    for (int c = 0; c < HEAD; c++) acc[c] += q[i * HEAD + c] * k[j * HEAD + c];
  for (int c = 0; c < HEAD; c++) o[i * HEAD + c] = acc[c];
}
void run(const float* q, const float* k, float* o, int n) { scores<<<(n + 127) / 128, 128>>>(q, k, o, n); }
"""
"""A constant of moderate size in a loop to a size: one block of 128 rows alone would take 16,000 statements a run."""


@pytest.mark.parametrize("largest", [8, 16, 32, 1000, None])
def test_the_range_promised_of_a_radius_does_not_matter(largest: int | None) -> None:
    kernel = load(BLUR, name="source.cu")
    params = tuple(
        dataclasses.replace(p, range=(1, largest)) if p.sym.name == "r" and largest else p for p in kernel.params
    )
    outcome = Raise().run(kernel.with_(params=params))
    assert isinstance(outcome, Result), outcome
    assert [s.var.name for s in walk(outcome.kernel.body) if isinstance(s, Par)] == ["y", "x"]


def test_sizes_of_nested_loops_are_drawn_small_and_those_of_launches_are_not() -> None:
    kernel = load(ATTEND, name="source.cu")
    reference = Reference(kernel)
    assert reference.sets and not reference.single, "two blocks along both axes"
    assert isinstance(Raise().run(kernel), Result)
    assert reference.budget.work < check.CHECK_WORK / 4


@pytest.mark.parametrize("sizes", [{"s": 17, "d": 12}, {"s": 3, "d": 40}, {"s": 30, "d": 1}])
def test_what_a_run_takes_is_reckoned(sizes: dict[str, int]) -> None:
    kernel = load(ATTEND, name="source.cu")
    args = {**Reference(kernel).sets[0], **sizes}
    taken = run(kernel, args, domain="int").steps
    assert 0.7 * taken < statements(kernel, sizes) < 1.5 * taken


def test_a_size_that_is_a_constant_is_one_of_many() -> None:
    kernel = load(NEAREST, name="source.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    assert "assumed: loops of 10,000 rounds do what shorter ones do" in " ".join(outcome.notes)
    form = outcome.kernel
    assert form.params == kernel.params and form.launch == kernel.launch and "size_" not in print_kernel(form)
    assert "par i in 0..10000 " in print_kernel(form)
    short = load(NEAREST.replace("10000", "100"), name="source.cu")
    same = Raise().run(short)
    assert isinstance(same, Result)
    assert print_kernel(same.kernel).replace("100", "10000").replace("grid(2)", "grid(157)") == print_kernel(form)


GRID_STRIDE = """
const size_t N = 8 << 20;
__global__ void sum(const float* x, float* y) {
  __shared__ float part[256];
  part[threadIdx.x] = 0;
  size_t i = threadIdx.x + blockDim.x * blockIdx.x;
  WALK
  for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
    __syncthreads();
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
  }
  if (threadIdx.x == 0) atomicAdd(y, part[0]);
}
void host(const float* x, float* y) { sum<<<640, 256>>>(x, y); }
"""


@pytest.mark.parametrize(
    "walk_through",
    [
        "while (i < N) { part[threadIdx.x] += x[i]; i += gridDim.x * blockDim.x; }",
        "for (; i < N; i += gridDim.x * blockDim.x) part[threadIdx.x] += x[i];",
    ],
    ids=["while", "for"],
)
def test_a_size_of_the_file_that_many_threads_share_is_one_of_many(walk_through: str) -> None:
    """A few rounds a thread, and 160,000 threads."""
    outcome = Raise().run(load(GRID_STRIDE.replace("WALK", walk_through), name="source.cu"))
    assert isinstance(outcome, Result) and "8388608 step 163840" in print_kernel(outcome.kernel)


def test_a_constant_is_made_smaller_for_a_second_block_to_be_run() -> None:
    general = of_any_size(load(HEAD, name="source.cu"))
    assert general is not None
    reference = Reference(general[0])
    assert not reference.single and any(a["n"] > 128 for a in reference.sets)
    outcome = Raise().run(load(HEAD, name="source.cu"))
    assert isinstance(outcome, Result) and not any("assumed" in n for n in outcome.notes), outcome
    assert "0..64" in print_kernel(outcome.kernel)


MATCH = """
#define LENGTH 64
__global__ void match(const float* a, const float* b, int* best) {
  int i = threadIdx.x + 64 * blockIdx.x, found = -1;
  float most = 0;
  for (int j = 0; j < 4096; j++) {
    float sum = 0;
    for (int k = 0; k < LENGTH; k++) sum += a[i * LENGTH + k] * b[j * LENGTH + k];
    if (sum > most) { most = sum; found = j; }
  }
  best[i] = found;
}
void host(const float* a, const float* b, int* best) { match<<<64, 64>>>(a, b, best); }
"""


def test_a_size_that_a_block_happens_to_have_is_not_the_blocks() -> None:
    """``LENGTH`` is made smaller for the check, and a thread's number is what it is at any length."""
    outcome = Raise().run(load(MATCH, name="source.cu"))
    assert isinstance(outcome, Result) and "par i in 0..4096 @ [thread.x 64, block.x]" in print_kernel(outcome.kernel)


SHUFFLES = """
__global__ void k(float* o, const float* x, int n) {
  float v = 0.f;
  for (int i = threadIdx.x; i < n; i += 32)
    for (int r = 0; r < ROUNDS; ++r) {
      v += x[i] * r; v *= .5f; v += 1.f; v *= .5f; v += 2.f; v *= .5f; v += 3.f; v *= .5f; v += 4.f; v *= .5f;
      v -= x[i] * r; v *= .5f; v += 1.f; v *= .5f; v += 2.f; v *= .5f; v += 3.f; v *= .5f; v += 4.f; v *= .5f;
    }
  for (int i = FIRST; i LESS; i STEP) v += __shfl_xor_sync(0xffffffff, v, i);
  if (threadIdx.x == 0) o[0] = v;
}
void host(float* o, const float* x, int n) { k<<<1, 32>>>(o, x, n); }
"""
"""Long at the smallest sizes, where each of twenty statements goes round 20 times."""


@pytest.mark.parametrize("first, less, step", [("1", "< 32", "*= 2"), ("1", "< 64", "<<= 1"), ("32", "> 0", "/= 2")])
def test_an_end_that_few_rounds_go_to_is_no_size(first: str, less: str, step: str) -> None:
    text = SHUFFLES.replace("FIRST", first).replace("LESS", less).replace("STEP", step)
    counted = text.replace(step, "+= 1" if first == "1" else "-= 1")
    for form, found in ((text, False), (counted, True)):
        form = form.replace("ROUNDS", "20")
        assert least_statements(load(form, name="source.cu")) > LONG
        assert (of_any_size(load(form, name="source.cu")) is not None) == found


@pytest.mark.parametrize("change", [("p[j] - p[i]", "p[j] - o[i + 1]"), ("o[i] = best", "o[i / 2] = best")])
def test_a_race_is_one_at_any_size(change: tuple[str, str]) -> None:
    assert NEAREST.count(change[0]) == 1
    outcome = Raise().run(load(NEAREST.replace(*change), name="source.cu"))
    assert isinstance(outcome, Refused), outcome.notes


def test_a_source_that_never_ends_soon_is_unchecked_not_wrong() -> None:
    text = COPY.replace("y[i] = x[i];", "{ float s = 0; int k = 1; while (k != 0) { s += x[i]; k += 1; } y[i] = s; }")
    outcome = Raise().run(load(text, name="source.cu"))
    assert isinstance(outcome, Refused) and outcome.code == "E-RAISE-BUDGET"
    assert outcome.why.startswith("not checked within") and "compute" not in outcome.why


STRIDES = """
__global__ void k(float* y, const float* x, int n) {
  FORM y[i] = x[i];
}
void host(float* y, const float* x, int n) { k<<<200, 256>>>(y, x, n); }
"""
FOLDED = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)"
APART = "int i = blockIdx.x * blockDim.x + threadIdx.x; for (; i < n; i += gridDim.x * blockDim.x)"


@pytest.mark.parametrize("form", [FOLDED, APART])
def test_a_large_fixed_grid_is_run_seldom(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strides over a grid of 51,200 threads: raised for any number of blocks, compared once in its own."""
    threads, once = list[int](), Budget.run
    monkeypatch.setattr(Budget, "run", lambda self, k, a, *of: threads.append(launched(k, a)) or once(self, k, a, *of))
    text = STRIDES.replace("FORM", form)
    outcome = Raise().run(load(text, name="source.cu"))
    assert isinstance(outcome, Result) and not any("a grid of" in n for n in outcome.notes), outcome
    assert sum(n > 1 << 15 for n in threads) <= 4 and 51_200 in threads
    small = Raise().run(load(text.replace("200", "20"), name="source.cu"))  # a grid that is run as it is
    assert isinstance(small, Result) and small.notes == outcome.notes
    assert print_kernel(small.kernel).replace("5120", "51200").replace("20)", "200)").replace(
        "block.x 20,", "block.x 200,"
    ) == print_kernel(outcome.kernel)


FIXED = """
__global__ void k(float* c, const float* a, const float* b) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < 1024 && j < 1024)
    for (int t = 0; t < 1024; t++) c[i * 1024 + j] += a[i * 1024 + t] * b[j * 1024 + t];
}
void host(float* c, const float* a, const float* b) { k<<<dim3(32, 128), dim3(32, 8)>>>(c, a, b); }
"""


def test_one_launch_as_large_as_the_source_has_it_is_not_run_where_that_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A million threads of a thousand rounds: what was checked at small sizes is one of these, and that is said."""
    most = []
    spent = Budget.run

    def counted(self: Budget, *args: object, **named: object) -> object:
        result = spent(self, *args, **named)  # type: ignore[arg-type]
        most.append(result.work)
        return result

    monkeypatch.setattr(Budget, "run", counted)
    outcome = Raise().run(load(FIXED, name="source.cu"))
    assert isinstance(outcome, Result) and any("1,024 rounds do what shorter ones do" in n for n in outcome.notes)
    assert most and max(most) < check.CHOOSING_WORK


STEPS = """
__global__ void march(float* y, const float* x, const float* far, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  for (int k = 0; k < (int)roundf(far[i] * x[i] - x[i]); ++k) sum += x[k & 7];
  y[i] = sum;
}
void host(float* y, const float* x, const float* far, int n) { march<<<(n + 63) / 64, 64>>>(y, x, far, n); }
"""


def test_nothing_is_compared_where_the_source_did_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is rounded in a field is any number: a loop up to it hardly ends. Of integers it has few rounds."""
    monkeypatch.setattr(chosen_sets, "CHECK_FUEL", 1_000)
    reference = Reference(load(STEPS, name="source.cu"))
    assert reference.differs(reference.source) == ""
    ended = [(domain, r.ended) for (_, domain), r in reference._runs.items()]
    assert ("int", True) in ended and ("field", True) in ended and ("field", False) in ended


def test_integers_are_compared_once() -> None:
    """Domains differ in what floats are."""
    whole, real = (Reference(load(s, name="source.cu")) for s in (COPY.replace("float", "int"), COPY))
    assert [r.differs(r.source) for r in (whole, real)] == ["", ""]
    assert {domain for _, domain in whole._runs} == {"int"} and {domain for _, domain in real._runs} == {"int", "field"}


def test_a_form_that_cannot_be_lowered_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be refused after all comparisons, each of which takes as long as finding that out."""
    kernel = load(COPY, name="source.cu")
    compared = list[int | None]()
    plain = Reference.differs

    def counted(self, guess, domains=("int", "field"), most=None, given=(), **more):  # type: ignore[no-untyped-def]
        compared.append(most)
        return plain(self, guess, domains, most, given, **more)

    monkeypatch.setattr(Reference, "differs", counted)
    assert isinstance(Raise().run(dataclasses.replace(kernel)), Result) and None in compared
    compared.clear()
    monkeypatch.setattr(raise_, "_not_lowered", lambda raised: "a loop that nothing is spread over")
    refused = Raise()._checked(kernel, kernel.launch)  # type: ignore[arg-type]
    assert isinstance(refused, Refused) and "nothing is spread over" in refused.why
    assert compared and set(compared) == {1}


def test_nothing_is_chosen_to_compare_forms_on_that_leave_no_less(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = load(TREE_BACKWARDS, name="source.cu")
    chosen = list[object]()
    monkeypatch.setattr(exact_check, "Reference", lambda k: chosen.append(k))
    outcome, refuted = Raise()._better(kernel, kernel.launch, 0)  # type: ignore[arg-type]
    assert isinstance(outcome, Refused) and not refuted and not chosen


def test_sets_drawn_afresh_leave_work_for_comparing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choosing took all there was, for a source of many statements, and nothing was compared."""
    monkeypatch.setattr(exact_check, "FRESH_WORK", 400)
    monkeypatch.setattr(exact_check, "FRESH_CHOOSING", 100)
    reference = Reference(load(TREE_BACKWARDS, name="source.cu"))
    fresh = reference._drawn_afresh()
    assert fresh.sets and not fresh.late
