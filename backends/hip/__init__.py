"""HIP C++ for AMD GPUs, and for NVIDIA GPUs through a header."""
