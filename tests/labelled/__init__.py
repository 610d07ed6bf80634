"""Suites of kernels with planted faults and with none, against the interpreter's sanitizer.

A suite is a folder of somebody else's kernels whose labels are in their first comments, names or reference outputs. The
readers here (``gpuverify``, ``indigo``, ``oclgrind``) know those conventions, not what the kernels contain.
"""
