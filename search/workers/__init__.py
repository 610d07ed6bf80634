"""Child processes that compile, run and time candidates, confined and with deadlines."""
