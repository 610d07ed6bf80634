"""The input languages: CUDA C++, HIP and OpenCL C, and what OpenCL C has of its own."""
