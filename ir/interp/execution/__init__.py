"""Execution in lockstep: frames of lanes, statements, expressions, warp collectives."""
