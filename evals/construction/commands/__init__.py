"""The commands of constructions."""
