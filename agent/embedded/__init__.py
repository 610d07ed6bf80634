"""The embedded planner: rules from shapes of loop nests to scripts, and the race between them."""
