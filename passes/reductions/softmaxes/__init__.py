"""A softmax and the sums that it weights in one sweep: what is found of both, and the loops that they become."""
