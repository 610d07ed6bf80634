"""Syntax trees with meaning to statements and expressions of the IR."""
