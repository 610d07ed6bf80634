"""Parallel form for cores whose compiler makes vectors of loops: tasks of one thread each, and plain loops in them."""
