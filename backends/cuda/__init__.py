"""CUDA C++: its dialect, copies by a producer, tensor-core instructions, what ptxas loses."""
