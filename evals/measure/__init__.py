"""Measurements of single components: retrieval, extraction, scope and encoder training."""
