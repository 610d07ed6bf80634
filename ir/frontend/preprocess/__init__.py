"""Source text to preprocessed text: macros, conditions, local includes, ``#line``."""
