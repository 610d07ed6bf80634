"""Coverage over a tree of sources: which kernels parse with types, print and compile, and why the others do not.

``ktc.project.source_trees`` (which files) -> ``kernel_scan`` (which kernels, without the parser) -> ``unit`` (one file
through the front-end and the backends) in ``worker`` processes that ``pool`` starts and watches -> ``summary`` (totals,
refusals).
"""

from __future__ import annotations

from .summary import Summary, survey
from .survey_options import SurveyOptions

__all__ = ["Summary", "SurveyOptions", "survey"]
