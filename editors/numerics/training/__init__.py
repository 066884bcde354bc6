"""Training of weights: on copies, for several groups of edits at once, and in place."""
