"""The rules of the IR, checked: front-end, passes and the ``.ktir`` reader must give kernels without problems."""

from .verify import Problem, check, unproved, verify

__all__ = ["Problem", "check", "unproved", "verify"]
