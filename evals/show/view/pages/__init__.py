"""Pages of the viewer as records, without HTML."""
