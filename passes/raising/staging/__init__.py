"""Tiles that a source stages by hand: taken away, and remembered as passes."""
