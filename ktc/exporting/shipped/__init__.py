"""Modules that are copied into exported packages as they are: they import nothing of ktc, and run without it.

``dispatch`` decides, from ``kernel.json``, which kernel runs for a call and how it is launched; the others do that on
PyTorch, CuPy, numpy (through numba) and PyOpenCL.
"""
