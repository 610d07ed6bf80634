"""Passes on expressions: fewer, cheaper and narrower operations."""
