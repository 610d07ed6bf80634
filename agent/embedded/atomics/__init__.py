"""Ideas for atomics inside of rows."""
