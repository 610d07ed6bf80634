"""Ideas for sums of products of which a factor is computed: quantised weights."""
