"""Thread programs and raised loops, made plain enough to be recognised and to be read."""
