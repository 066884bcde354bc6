"""Numerics shared by the parametric editors."""
