"""LLM judges as graphs."""
