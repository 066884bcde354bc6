"""Retrieval strategies over a memory of edits."""

import os

# bm25s imports JAX where it is installed, and JAX would take three quarters of a GPU's memory for itself.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
