"""Lowering control flow: statements, loops, jumps, returns, the ends of objects."""
