"""Which knob values: spaces, samplers, the tuner, its records, the workers that measure, and verification."""
