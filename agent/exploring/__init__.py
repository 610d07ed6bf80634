"""Planners that search among scripts: each begins with the rules' ideas and goes on from what was measured."""
