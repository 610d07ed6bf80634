"""Ideas for sums that are products once what they read is gathered: convolutions on tensor cores."""
