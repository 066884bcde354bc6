"""Memory of facts that agents write to, with validity periods, provenance and dependencies."""
