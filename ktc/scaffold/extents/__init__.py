"""How long dimensions are: rows that an index is taken apart by, rows of a literal pitch, tensors that say it."""
