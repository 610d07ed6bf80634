"""Products of tiles on tensor cores: fragments, operands, overlapped rounds."""
