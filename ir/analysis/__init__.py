"""Analyses of the IR: affine index forms, definitions, access facts. They read kernels and never change them."""
