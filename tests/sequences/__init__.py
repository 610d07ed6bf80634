"""Random sequences of launches, and what is asked of the passes that make fewer launches of them."""
