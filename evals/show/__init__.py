"""Texts, tables and plots for terminals and files, and lists of components."""
