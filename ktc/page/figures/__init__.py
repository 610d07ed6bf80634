"""Plots of a run as static SVG text: scales, axes, marks, and one module a plot.

Each plot is a function of its data and of a width in CSS pixels, so that a page can hold one for wide and one for
narrow screens. Colours are classes of the page's style sheet; there is no script and nothing from outside.
"""
