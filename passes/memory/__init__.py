"""Passes that decide where values lie and when they move: shared memory, registers, caches."""
