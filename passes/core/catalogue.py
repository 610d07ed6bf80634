"""The table of passes: name to module and class. A module is imported when its pass is first asked for.

A new pass is one file and one row here; a third party's is an entry point of the group ``ktc.passes``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ktc.ir.diagnostics import KtcError

from .base import Pass

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ROWS: dict[str, str] = {
    "raise": "raising.raise_:Raise",
    "fuse-launches": "launches.fuse_launches:FuseLaunches",
    "side-by-side": "launches.side_by_side:SideBySide",
    "normalise": "loops.normalise:Normalise",
    "distribute": "mapping.distribute:Distribute",
    "map": "mapping.map_nest:MapNest",
    "delinearise": "loops.delinearise:Delinearise",
    "linearise": "mapping.linearise:Linearise",
    "unmask": "loops.unmask:Unmask",
    "zero-terms": "loops.zero_terms:ZeroTerms",
    "part-sums": "loops.part_sums:PartSums",
    "factor-out": "reductions.factor_out:FactorOut",
    "vectorize": "mapping.vectorize:Vectorize",
    "coarsen": "mapping.coarsen:Coarsen",
    "interchange": "loops.interchange:Interchange",
    "sink": "mapping.sink:Sink",
    "collapse": "loops.collapse:Collapse",
    "tile": "loops.tile:Tile",
    "fuse": "loops.fuse:Fuse",
    "fission": "loops.fission:Fission",
    "parallelize": "mapping.parallelize:Parallelize",
    "promote": "memory.promote:Promote",
    "unrotate": "loops.unrotate:Unrotate",
    "forward-stores": "memory.forward_stores:ForwardStores",
    "defer-store": "memory.defer_store:DeferStore",
    "unroll": "loops.unroll:Unroll",
    "unroll-and-jam": "loops.unroll_and_jam:UnrollAndJam",
    "peel": "loops.peel:Peel",
    "unpeel": "loops.unpeel:Unpeel",
    "unclip": "loops.unclip:Unclip",
    "tighten": "loops.tighten:Tighten",
    "narrow": "loops.narrow:Narrow",
    "enough-threads": "loops.enough_threads:EnoughThreads",
    "skip-masked": "loops.skip_masked:SkipMasked",
    "split-edges": "loops.split_edges:SplitEdges",
    "split-range": "loops.split_range:SplitRange",
    "register-tile": "loops.register_tile:RegisterTile",
    "stage-shared": "memory.stage_shared:StageShared",
    "stage-gathered": "tensor.stage_gathered:StageGathered",
    "stage-factors": "tensor.stage_factors:StageFactors",
    "register-window": "memory.register_window:RegisterWindow",
    "tabulate": "memory.tabulate:Tabulate",
    "share-array": "memory.share_array:ShareArray",
    "stage-rows": "memory.stage_rows:StageRows",
    "stage-store": "memory.stage_store:StageStore",
    "join-stores": "memory.join_stores:JoinStores",
    "panel-shared": "memory.panel_shared:PanelShared",
    "swizzle-shared": "memory.swizzle_shared:SwizzleShared",
    "pad-shared": "memory.pad_shared:PadShared",
    "multi-buffer": "memory.multi_buffer:MultiBuffer",
    "async-copy": "memory.async_copy:AsyncCopies",
    "prefetch": "memory.prefetch:Prefetch",
    "temporal-block": "loops.temporal_block:TemporalBlock",
    "block-swizzle": "mapping.block_swizzle:BlockSwizzle",
    "tensorize": "tensor.tensorize:Tensorize",
    "offset-sums": "tensor.offset_sums:OffsetSums",
    "row-cache": "memory.row_cache:RowCache",
    "contract": "memory.contract:Contract",
    "rematerialize": "reductions.rematerialize:Rematerialize",
    "online-reduction": "reductions.online_reduction:OnlineReduction",
    "rows-mapping": "mapping.rows_mapping:RowsMapping",
    "widen-accumulators": "reductions.widen_accumulators:WidenAccumulators",
    "join-sums": "reductions.join_sums:JoinSums",
    "split-reduction": "reductions.split_reduction:SplitReduction",
    "split-softmax": "reductions.split_softmax:SplitSoftmax",
    "online-softmax": "reductions.online_softmax:OnlineSoftmax",
    "rfactor": "reductions.rfactor:RFactor",
    "rfactor-atomics": "reductions.rfactor_atomics:RFactorAtomics",
    "scan": "reductions.scan:ScanPass",
    "reduce-strategy": "reductions.reduce_strategy:ReduceStrategy",
    "privatize-atomics": "reductions.privatize_atomics:PrivatizeAtomics",
    "join-counts": "reductions.join_counts:JoinCounts",
    "unprivatize-atomics": "reductions.unprivatize_atomics:UnprivatizeAtomics",
    "reduce-atomics": "reductions.reduce_atomics:ReduceAtomics",
    "warp-aggregate": "reductions.warp_aggregate:WarpAggregate",
    "persistent": "mapping.persistent:Persistent",
    "launch-bounds": "mapping.launch_bounds:LaunchBounds",
    "specialize": "scalar.specialize:Specialize",
    "divisible-by": "scalar.divisible_by:DivisibleBy",
    "cache-hints": "memory.cache_hints:CacheHints",
    "fast-math": "scalar.fast_math:FastMath",
    "if-convert": "scalar.if_convert:IfConvert",
    "licm": "scalar.licm:Licm",
    "cse": "scalar.cse:Cse",
    "invariant-division": "scalar.invariant_division:InvariantDivision",
    "strength-reduce": "scalar.strength_reduce:StrengthReduce",
    "narrow-index": "scalar.narrow_index:NarrowIndex",
    "narrow-doubles": "scalar.narrow_doubles:NarrowDoubles",
    "simplify": "scalar.simplify:Simplify",
}
ENTRY_POINTS = "ktc.passes"


class Catalogue(Mapping[str, Pass[Any]]):
    """Passes by name. Listing names imports nothing of ours; indexing imports one module."""

    def __init__(self) -> None:
        self._loaded: dict[str, Pass[Any]] = {}

    def __getitem__(self, name: str) -> Pass[Any]:
        if name not in self._loaded:
            if name in ROWS:
                module, _, cls = ROWS[name].partition(":")
                self._loaded[name] = getattr(import_module(f"ktc.passes.{module}"), cls)()
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
    def _entry_points(self) -> dict[str, EntryPoint]:
        from importlib.metadata import entry_points

        return {e.name: e for e in entry_points(group=ENTRY_POINTS)}

    def _from_entry_point(self, name: str) -> Pass[Any]:
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
