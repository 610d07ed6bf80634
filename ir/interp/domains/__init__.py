"""Value domains: what a number is while the interpreter runs, and the arithmetic of each."""
