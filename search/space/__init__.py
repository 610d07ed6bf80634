"""The space of knob values: constraints, device limits, recorded spaces."""
