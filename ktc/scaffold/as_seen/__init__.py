"""Kernels as drafts look at them: the same, in sizes rather than in what the host makes of sizes."""
