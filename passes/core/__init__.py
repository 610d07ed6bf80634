"""What every pass stands on: the protocol, the pipeline language, the catalogue, places, knobs."""
