"""Sequences of launches: kernels that one stream runs one after the other, on buffers that they share.

A sequence is a :class:`~ktc.ir.kernel.Kernel` whose body holds nothing but launches
(:class:`~ktc.ir.nodes.Launched`). Its parameters are those of the whole: inputs, outputs, sizes, and temporaries, which
one launch leaves for another one. So it prints, parses, runs in the interpreter and is verified as a kernel is, and a
pass may make one kernel of two launches.
"""

from .launches import alone, launch_extents, launch_kernels, launches, on_each_launch, put_back, temporaries

__all__ = ["alone", "launch_extents", "launch_kernels", "launches", "on_each_launch", "put_back", "temporaries"]
