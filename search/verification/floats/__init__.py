"""When floating-point results agree: error bounds, condition numbers, spreads."""
