"""Set-up of a run: its cases, editors, model and memory."""
