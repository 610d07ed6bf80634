"""Values that a sweep keeps up to date: maxima with sums below them, means with squared distances from them."""
