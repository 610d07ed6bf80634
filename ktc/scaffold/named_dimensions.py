"""How long the dimensions of models are, by the field's names for them: a head has 64 or 128 elements, a layer some
tens of heads, a vocabulary tens of thousands of words.

Sizes of scenarios are chosen by it and nothing is concluded: a name that means something else gets another legal size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Dimension:
    """A dimension of models: ``least`` in the smallest scenario, ``most`` in the largest. ``counts_rows``: it says how
    many tokens there are, rather than what each of them has. ``usual``: what most models have of what each has."""

    least: int
    most: int
    counts_rows: bool = False
    usual: int = 0

    @property
    def is_few(self) -> bool:
        """Whether there are few of it in every model: batches, beams."""
        return self.least <= FEW


FEW = 4
"""Up to this in the smallest scenario, there are few of a dimension."""

ROWS, OTHERS = 4096, 16
"""How large a size of any other name is beside dimensions at their ``most``: tokens or rows, which have no upper bound,
where no dimension counts those; else a number of layers, of matrices side by side."""

HEAD = Dimension(64, 128, usual=128)
"""The elements of a head."""

TOKENS = Dimension(16, 4096, True)
"""The length of a sequence."""

_BY_NAME: tuple[tuple[str, Dimension], ...] = (
    (r"head_(dim|size)|headdim|(dim|size|units)_per_head|dim_head|d_head", HEAD),
    (r"rot(ary)?(_emb(edding)?)?_dim", Dimension(64, 128, usual=128)),
    (r"kv_head|head_kv", Dimension(2, 8, usual=8)),
    (r"num_dim|dim_(count|num)", Dimension(4, 4)),
    (r"(block|page)_(size|len)|tokens_per_(block|page)", Dimension(16, 16)),
    (r"(q_|quant_)?group_?(size|len)|(quant|scale)_block_?(size)?|block_[mnk]", Dimension(128, 128, usual=128)),
    (r"(ele|val(ue)?|weight)_per_(blk|block)", Dimension(32, 32, usual=32)),
    (r"n?head", Dimension(8, 32, usual=32)),
    (r"beam", Dimension(4, 8)),
    (r"top_?k", Dimension(2, 8, usual=8)),
    (r"n?expert", Dimension(8, 128, usual=64)),
    (r"vocab(ulary)?", Dimension(512, 1 << 17)),
    (r"n?classe?", Dimension(256, 1 << 15)),
    (r"(seq|sequence|query|context|prompt|src|tgt|trg|kv|q|k)_(len|length)|seqlen|max_(step|len|length)|step_num",
     TOKENS),
    (r"batch|bsz", Dimension(2, 64, True)),
    (r"hidden|d_model|embd|(embed|emb|embedding|feature|model)_(dim|size)|(?<=^_)dimension(?=_$)",
     Dimension(256, 8192, usual=4096)),
    (r"inter(mediate)?(_dim|_size)?|ffn_dim", Dimension(512, 16384, usual=8192)),
)  # fmt: skip
"""The first row counts of which the name has the words, in a row: ``max_batch_seq_len`` is a length of sequences."""

_ALONE = {"group": Dimension(128, 128, usual=128), "gs": Dimension(128, 128, usual=128)}
"""What a name is by itself: a group of elements that share a scale, where ``groups`` are a number of them."""

_UNITS = re.compile(r"token|elem|byte|stride|offset|_id_|ptr|batch_n?head|batch_beam")
"""Words of names that count or place something else: ``batch_tokens``, ``head_stride``, ``batch_heads``."""


_GENERAL = frozenset({"size", "num", "n", "len", "length", "dim", "count", "max", "total", "stride"})
"""Words that say how much, not of what."""


def dimension(name: str) -> Dimension | None:
    """What the parameter ``name`` is by its name: ``head_num``, ``numHeads`` and ``n_heads`` are a number of heads."""
    if name.lower() in _ALONE:
        return _ALONE[name.lower()]
    plain = f"_{'_'.join(words_of(name))}_"
    if _UNITS.search(plain):
        return None
    return next((d for pattern, d in _BY_NAME if re.search(rf"_({pattern})_", plain)), None)


def words_of(name: str) -> list[str]:
    """The words of a name in its order, as singulars."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")
    return [re.sub(r"s$", "", w) if len(w) > 3 else w for w in words.split("_")]


def in_common(a: str, b: str) -> int:
    """How many words two names share that say of what they are: ``vocab_size`` and ``padded_vocab`` one."""
    return len(({*words_of(a)} & {*words_of(b)}) - _GENERAL)


def dimensions(names: Iterable[str]) -> dict[str, Dimension]:
    """Those of ``names`` that are dimensions of models."""
    return {n: d for n in names if (d := dimension(n)) is not None}


def of_models(named: Mapping[str, Dimension]) -> dict[str, int]:
    """What most models have of dimensions of which each token, or each layer, has as many."""
    return {n: d.usual for n, d in named.items() if d.usual}


def proportions(names: Iterable[str], named: Mapping[str, Dimension]) -> dict[str, int]:
    """How large sizes are beside each other, those that are ``named`` and all others."""
    others = OTHERS if any(d.counts_rows for d in named.values()) else ROWS
    return {n: named[n].most if n in named else others for n in names}
