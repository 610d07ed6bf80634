"""The kernel library: sources, workloads, and scripts that were found for them."""
