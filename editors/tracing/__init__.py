"""Causal tracing: find the layers of a local model that recall a fact and should be edited."""
