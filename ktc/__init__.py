"""ktc: a compiler-style transformation toolkit for GPU kernels."""
__version__ = "0.1.0"
