"""Variables declared in the smallest scope that holds their uses: a branch, an iteration of a loop."""
