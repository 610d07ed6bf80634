"""Device libraries and built-ins that are written in the language the front-end reads."""
