"""Fact updates from Wikidata, read from a dump or queried over HTTP."""
