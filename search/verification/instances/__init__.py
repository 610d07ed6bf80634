"""Which sizes and data a candidate is run on, and what the runs have shown."""
