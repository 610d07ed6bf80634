"""Ideas for blocks whose threads do several things, one after the other."""
