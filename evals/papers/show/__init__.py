"""Rendering and export of published tables and reproduced figures."""
