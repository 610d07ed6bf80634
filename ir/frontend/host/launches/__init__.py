"""Launches in host code, as expressions over the kernel's parameters and numbers of the host."""
