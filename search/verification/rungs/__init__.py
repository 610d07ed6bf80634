"""The rungs of the ladder that need no device."""
