"""Products for tensor cores."""
