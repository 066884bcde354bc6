"""Commands that read runs."""
