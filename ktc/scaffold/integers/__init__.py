"""What is seen of integer buffers before a kernel is run: where they begin rows, and which numbers mark elements."""
