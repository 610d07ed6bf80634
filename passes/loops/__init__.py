"""Passes that change the order and the form of loops."""
