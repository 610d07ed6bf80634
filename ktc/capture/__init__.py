"""Launches of real programs: recorded as they happen, and run again with the kernels that ktc prints.

``record`` runs a program with a library in front of the CUDA runtime, which writes what each launch was given and what
it left behind; ``rerun`` gives the same to the kernel as ktc prints it in CUDA, HIP or OpenCL, and compares the memory.
"""

from .recording import Settings, record
from .rerun import Outcome, rerun
from .store import Capture, Launch, Memory

__all__ = ["Capture", "Launch", "Memory", "Outcome", "Settings", "record", "rerun"]
