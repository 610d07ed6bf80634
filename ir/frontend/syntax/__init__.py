"""Preprocessed text to syntax trees: tokens, the parser, its nodes, and what trees say by themselves."""
