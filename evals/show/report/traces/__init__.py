"""Output of a run's traces, answers and overview on a terminal or as Markdown."""
