"""Command line of Emend."""
