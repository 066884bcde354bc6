"""Updates of facts from Wikidata: read from a dump or queried over HTTP."""
