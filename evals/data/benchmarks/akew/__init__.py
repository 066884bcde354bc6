"""AKEW: knowledge editing with structured and unstructured facts."""
