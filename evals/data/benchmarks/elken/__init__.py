"""ELKEN: event-level knowledge editing."""
