"""Commands of `emend`, one module a command or two that belong together."""
