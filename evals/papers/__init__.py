"""Published result tables of the four papers, their inconsistencies, and matching runs."""
