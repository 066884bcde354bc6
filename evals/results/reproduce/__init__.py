"""Published tables and grids of runs: planned as a recipe, run, resumed, and shown as one table."""
