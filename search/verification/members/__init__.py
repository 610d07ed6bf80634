"""Candidates for one set of sizes alone, checked through smaller members of the family that they belong to."""
