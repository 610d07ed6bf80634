"""Sizes that are parts of others, or multiples of them: groups, blocks of elements, whole parts."""
