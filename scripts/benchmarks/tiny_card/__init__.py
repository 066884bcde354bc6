"""The evaluation card of the embedded model."""
