"""Viewer of runs: web pages, served live or exported as static files."""
