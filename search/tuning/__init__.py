"""The tuner: propose, measure, record, until the budget is spent."""
