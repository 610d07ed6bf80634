"""What CUDA C++, HIP C++ and OpenCL C have in common: statements, expressions, names, layout."""
