"""Comparison of text answers with gold: whole answers, answers within sentences, and choices."""
