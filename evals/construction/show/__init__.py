"""Display of constructions in the terminal and for reviewers."""
