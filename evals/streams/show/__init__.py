"""Displays of streams: an analysis, the turns page, and the checks of a stream."""
