"""Which passes: planners, the loop that asks them, verifies and measures, memory, reports."""
