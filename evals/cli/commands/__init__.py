"""Commands of `emend`, one module per command or group of related commands."""
