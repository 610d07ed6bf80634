"""What is written down: the ledger of measurements, outcomes, recipes."""
