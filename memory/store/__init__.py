"""The Chroma store of edits."""
