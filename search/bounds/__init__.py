"""The least time that a device allows, and what limits how many warps it holds."""
