"""Traces of cases: steps, graph paths, filters and OTLP export."""
