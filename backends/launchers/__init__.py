"""The host side of an emitted kernel: geometry, guard, fall-back."""
