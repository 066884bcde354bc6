"""Measurements for the card of the embedded model."""
