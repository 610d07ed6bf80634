"""Profiles of real programs: which kernels they launch, how long these take, and what a faster one would give.

``profile`` runs a program with a library in front of the CUDA driver (:mod:`.profile_run`), ``ranked`` orders its
kernels by Amdahl's law, ``verdict`` says what bounds the program, ``unseen`` what the profile does not know.
"""

from .profile_format import Profile
from .profile_run import ProfileSettings, profile
from .program_limits import Verdict, unseen, verdict
from .ranking import Ranked, ranked

__all__ = ["Profile", "ProfileSettings", "Ranked", "Verdict", "profile", "ranked", "unseen", "verdict"]
