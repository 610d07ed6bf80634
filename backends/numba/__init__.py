"""The CPU backend: kernels as Python modules that numba compiles."""
