"""What is known now: edits, stores and retrieval."""
