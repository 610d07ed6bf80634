"""The exact check of every raise, and the arguments that it runs on."""
