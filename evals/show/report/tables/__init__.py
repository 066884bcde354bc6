"""Tables for the terminal, one subject a module."""
