"""Manual corrections of a run's scores, stored separately."""
