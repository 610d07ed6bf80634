"""Compare-and-swap loops: which of them are atomic updates of one element, and which updates."""
