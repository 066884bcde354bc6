"""Relations: their canonical form, and how many objects of one hold at once."""
