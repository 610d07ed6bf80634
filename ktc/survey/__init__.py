"""Coverage over a tree of sources: which kernels parse with types, print and compile, and why the others do not.

``tree`` (which files) -> ``scan`` (which kernels, without the parser) -> ``unit`` (one file through the front-end and
the backends) in ``worker`` processes that ``pool`` starts and watches -> ``summary`` (totals, refusals).
"""

from __future__ import annotations

from .options import SurveyOptions
from .summary import Summary, survey

__all__ = ["Summary", "SurveyOptions", "survey"]
