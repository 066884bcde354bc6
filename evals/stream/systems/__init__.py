"""Memory systems that come with Emend, and adapters for those of others."""
