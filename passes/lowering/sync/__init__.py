"""Who touches what, and the barriers that follow from it."""
