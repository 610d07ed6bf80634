"""The code generator: a kernel lowered, adapted to what a target can do, and printed."""
