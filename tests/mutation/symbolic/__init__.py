"""Bodies run on symbols, to prove that two of them do the same."""
