"""Set-up of a run: the parts that its configuration names, loaded."""
