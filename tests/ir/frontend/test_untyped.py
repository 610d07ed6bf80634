"""Declarations without a type are no C++."""

from __future__ import annotations

import pytest
from ktc.ir.diagnostics import KtcError


def test_a_constant_needs_a_type(cu):
    """nvcc refuses it too; taken for a declaration of nothing, every use of it read as 0."""
    with pytest.raises(KtcError, match=r"declared without a type|unknown name 'kThreads'"):
        cu("constexpr kThreads = 256;\n__global__ void k(int* out) { out[0] = kThreads; }")
