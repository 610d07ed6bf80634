"""Launches of real programs: recorded as they happen, and run again with the kernels that ktc prints.

``record`` runs a program with a library in front of the CUDA runtime, which writes what each launch was given and what
it left behind; ``rerun`` gives the same to the kernel as ktc prints it in CUDA, HIP or OpenCL, and compares the memory.
"""

from .capture_format import Capture, Launch, Memory
from .recording import Settings, record
from .rerun import Outcome, rerun

__all__ = ["Capture", "Launch", "Memory", "Outcome", "Settings", "record", "rerun"]
