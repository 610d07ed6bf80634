"""Ways to break a program or a printed text."""
