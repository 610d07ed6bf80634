"""Floating-point parameters that the host makes of sizes, and what that says of these."""
