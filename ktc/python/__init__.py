"""What Python callers have beside programs: searches, their results, kernels to call, progress in notebooks."""
