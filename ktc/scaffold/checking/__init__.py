"""What a draft has to stand up to: runs at its own shapes, blocks at its own sizes, what the host allocates."""
