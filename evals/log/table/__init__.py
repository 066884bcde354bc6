"""The lines of a run folder as tables, kept so that they are parsed once."""
