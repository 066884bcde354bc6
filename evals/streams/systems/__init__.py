"""Emend's memory systems, and adapters for third-party ones."""
