"""Raised kernels of whole source trees, compared afresh with their sources; ``python -m tests.audit --help``."""
