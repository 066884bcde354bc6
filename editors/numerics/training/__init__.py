"""Training of weights: copies of a few of them, groups of edits apart, and a whole model in place."""
