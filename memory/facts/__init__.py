"""A memory of facts that agents write to: what holds when, who said it, and what follows from it."""
