"""What host code asks of tensors of libraries: extents, strides and numbers of elements."""
