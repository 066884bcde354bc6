"""The run: cases, edits and probes, evaluated and written."""
