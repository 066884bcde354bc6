"""Filters of what authors write: each says why a text cannot be used, or nothing."""
