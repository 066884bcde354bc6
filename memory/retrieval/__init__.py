"""Retrieval strategies over a memory of edits."""

import os

# bm25s imports JAX if it is installed, and JAX would preallocate three quarters of a GPU's memory.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
