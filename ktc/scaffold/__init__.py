"""A first ``workload.toml`` for a kernel that has none: what it is called with, found by running it.

Sizes are the integers that extents, grids and loops depend on (:mod:`.roles`); a launch that the source does not show
is guessed from the guards (:mod:`.drafted_launches`); shapes are fitted to how far the reference interpreter sees each
buffer reached, indices and offsets in integer buffers are recognised by what changing them does (:mod:`.probe`,
:mod:`.shapes`); scenarios are grown to useful sizes (:mod:`.scenarios`). Everything guessed is then run once more at
its exact shapes, and what could not be confirmed says ``CHECK``.
"""

from .draft import draft
from .model import Draft
from .text import with_draft, workload_text

__all__ = ["Draft", "draft", "with_draft", "workload_text"]
