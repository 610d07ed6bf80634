"""A run as it happens: what stands after each event, as plain lines, as a view on a terminal, in a notebook."""
