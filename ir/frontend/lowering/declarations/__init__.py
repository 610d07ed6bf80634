"""Lowering declarations: variables, arrays, parameters, and how objects begin."""
