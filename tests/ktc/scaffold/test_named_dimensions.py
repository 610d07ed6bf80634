"""Sizes that are called as dimensions of models are: scenarios have usual numbers of heads and elements in each."""

from __future__ import annotations

import pytest

import ktc
from ktc.scaffold import Draft, draft
from ktc.scaffold.named_dimensions import dimension

SPLIT = """
__global__ void split(float* to, const float* from, int batch_size, int seq_len, int head_num, int size_per_head) {
  int token = blockIdx.x, head = blockIdx.y, i = threadIdx.x;
  int b = token / seq_len, s = token % seq_len;
  to[((b * head_num + head) * seq_len + s) * size_per_head + i] = from[(token * head_num + head) * size_per_head + i];
}
void run(float* to, const float* from, int batch_size, int seq_len, int head_num, int size_per_head) {
  dim3 grid(batch_size * seq_len, head_num);
  split<<<grid, size_per_head>>>(to, from, batch_size, seq_len, head_num, size_per_head);
}
"""


def drafted(source: str) -> Draft:
    return draft(ktc.loads(source).kernel)


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("head_num", "numHeads"), ("n_heads", "nhead"), ("num_kv_heads", "head_kv"), ("size_per_head", "headDim"),
        ("batch_size", "batch"), ("max_batch_seq_len", "seqlen"), ("hidden_dim", "hiddenSize"), ("topK", "top_k"),
        ("groupSize", "group_size"), ("blockK", "block_n"), ("rot_dim", "rotary_dim"), ("dimension", "hidden"),
        ("expert_num", "num_experts"), ("vocabSize", "vocab_size"), ("nclasses", "num_classes"),
    ],
)  # fmt: skip
def test_names_of_one_dimension(name: str, like: str) -> None:
    assert dimension(name) == dimension(like) is not None


@pytest.mark.parametrize(
    "name", ["n", "rows", "batch_tokens", "head_stride", "batch_head_num", "header", "token_num", "vocab_offset", "k"]
)
def test_other_names(name: str) -> None:
    assert dimension(name) is None


def test_scenarios_have_heads_as_models_do() -> None:
    d = drafted(SPLIT)
    sizes = {name: s for name, s, _ in d.scenarios}
    heads = {n: (s["head_num"], s["size_per_head"]) for n, s in sizes.items() if n not in ("odd", "heldout")}
    assert heads == {"small": (8, 64), "medium": (32, 128), "large": (32, 128)}  # few tokens come before few heads
    assert sizes["large"]["batch_size"] <= 64 and 128 <= sizes["large"]["seq_len"] <= 4096


SCALED = """
__global__ void scale(float* x, const float* bias, const float* by, int batch_size, int vocab_size, int padded_vocab) {
  extern __shared__ float of[];
  if (threadIdx.x < batch_size) of[threadIdx.x] = 1.0f / (by[threadIdx.x] + 1.0f);
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < batch_size * padded_vocab; i += blockDim.x * gridDim.x) {
    int v = i % padded_vocab;
    if (v < vocab_size) x[i] = (x[i] + bias[v]) * of[i / padded_vocab];
  }
}
void run(float* x, const float* bias, const float* by, int batch_size, int vocab_size, int padded_vocab) {
  dim3 block(min(padded_vocab, 1024));
  dim3 grid(min(batch_size * padded_vocab / block.x, 65536));
  scale<<<grid, block, sizeof(float) * batch_size>>>(x, bias, by, batch_size, vocab_size, padded_vocab);
}
"""


def test_a_batch_is_small_and_a_length_of_one_thing_equals_another_of_it() -> None:
    """Of batches that are longer than a block the kernel sees one block's part; any two sizes might be equal then."""
    d = drafted(SCALED)
    shapes = {n: e.value({"batch_size": 3, "padded_vocab": 7}) for n, e in d.shapes.items() if e is not None}
    assert shapes == {"x": 21, "bias": 7, "by": 3}
    assert d.ties == {"vocab_size": "padded_vocab"}
