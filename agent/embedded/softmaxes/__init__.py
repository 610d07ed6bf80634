"""Ideas for softmaxes and the sums that they weigh: attention."""
