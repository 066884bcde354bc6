"""Commands that evaluate many runs or systems at once."""
