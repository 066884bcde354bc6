"""Facts of your own, read from a file."""
