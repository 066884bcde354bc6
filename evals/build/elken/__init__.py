"""ELKEN's events over a table of facts: event types, their impacts, and files."""
