"""Random kernels under random scripts on every backend; ``python -m tests.fuzz --help``."""
