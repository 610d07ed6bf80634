"""Lowering expressions: operands, operators, conversions, assignment, construction."""
