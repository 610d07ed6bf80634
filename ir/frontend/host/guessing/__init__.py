"""Template arguments that no text of the tree gives: which are tried, and in what order."""
