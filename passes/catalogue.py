"""The table of passes: name to module and class. A module is imported when its pass is first asked for.

A new pass is one file and one row here; a third party's is an entry point of the group ``ktc.passes``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module

from ktc.ir.diagnostics import KtcError

from .base import Pass

ROWS: dict[str, str] = {
    "raise": "raise_:Raise",
    "distribute": "distribute:Distribute",
    "vectorize": "vectorize:Vectorize",
    "coarsen": "coarsen:Coarsen",
    "interchange": "interchange:Interchange",
    "tile": "tile:Tile",
    "fuse": "fuse:Fuse",
    "fission": "fission:Fission",
    "parallelize": "parallelize:Parallelize",
    "defer-store": "defer_store:DeferStore",
    "unroll": "unroll:Unroll",
    "unroll-and-jam": "unroll_and_jam:UnrollAndJam",
    "peel": "peel:Peel",
    "register-tile": "register_tile:RegisterTile",
    "stage-shared": "stage_shared:StageShared",
    "stage-store": "stage_store:StageStore",
    "panel-shared": "panel_shared:PanelShared",
    "swizzle-shared": "swizzle_shared:SwizzleShared",
    "pad-shared": "pad_shared:PadShared",
    "multi-buffer": "multi_buffer:MultiBuffer",
    "async-copy": "async_copy:AsyncCopies",
    "prefetch": "prefetch:Prefetch",
    "temporal-block": "temporal_block:TemporalBlock",
    "block-swizzle": "block_swizzle:BlockSwizzle",
    "tensorize": "tensorize:Tensorize",
    "row-cache": "row_cache:RowCache",
    "online-reduction": "online_reduction:OnlineReduction",
    "rows-mapping": "rows_mapping:RowsMapping",
    "split-reduction": "split_reduction:SplitReduction",
    "scan": "scan:ScanPass",
    "reduce-strategy": "reduce_strategy:ReduceStrategy",
    "privatize-atomics": "privatize_atomics:PrivatizeAtomics",
    "warp-aggregate": "warp_aggregate:WarpAggregate",
    "persistent": "persistent:Persistent",
    "launch-bounds": "launch_bounds:LaunchBounds",
    "specialize": "specialize:Specialize",
    "cache-hints": "cache_hints:CacheHints",
    "fast-math": "fast_math:FastMath",
    "licm": "licm:Licm",
    "cse": "cse:Cse",
    "strength-reduce": "strength_reduce:StrengthReduce",
    "narrow-index": "narrow_index:NarrowIndex",
    "simplify": "simplify:Simplify",
}
ENTRY_POINTS = "ktc.passes"


class Catalogue(Mapping[str, Pass]):
    """Passes by name. Listing names imports nothing of ours; indexing imports one module."""

    def __init__(self) -> None:
        self._loaded: dict[str, Pass] = {}

    def __getitem__(self, name: str) -> Pass:
        if name not in self._loaded:
            if name in ROWS:
                module, _, cls = ROWS[name].partition(":")
                self._loaded[name] = getattr(import_module(f".{module}", __package__), cls)()
            else:
                self._loaded[name] = self._from_entry_point(name)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in ROWS or name in self._entry_points

    def __iter__(self) -> Iterator[str]:
        yield from ROWS
        yield from (name for name in self._entry_points if name not in ROWS)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @cached_property
    def _entry_points(self) -> dict:
        from importlib.metadata import entry_points

        return {e.name: e for e in entry_points(group=ENTRY_POINTS)}

    def _from_entry_point(self, name: str) -> Pass:
        point = self._entry_points[name]
        try:
            found = point.load()()
        except Exception as e:
            message = f"the plugin pass '{name}' ({point.value}) does not load: {type(e).__name__}: {e}"
            raise KtcError("E-PASS-PLUGIN", message, hint="update or uninstall it", exit_code=3) from e
        if not isinstance(found, Pass):
            raise KtcError("E-PASS-PLUGIN", f"the plugin '{point.value}' is not a Pass", exit_code=3)
        return found


PASSES = Catalogue()
