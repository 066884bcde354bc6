"""Kinds whose items rules compose before any model is asked."""
