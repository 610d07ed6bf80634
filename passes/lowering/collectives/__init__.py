"""Values that threads and blocks combine: reductions, scans, messages."""
