"""Runs of the interpreter that processes share: a verdict's, spread over those that are idle, and the original's."""
