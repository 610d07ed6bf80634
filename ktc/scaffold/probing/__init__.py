"""What probes are run with: which sizes, and what buffers of integers hold."""
