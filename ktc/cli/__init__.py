"""The ``ktc`` command: one module a command group, nothing heavy imported before a command runs."""
