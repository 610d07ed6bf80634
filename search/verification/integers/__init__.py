"""What verification decides integers with: intervals, formulas, numbers followed to a place."""
