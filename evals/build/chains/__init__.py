"""MQuAKE's chains over a table of facts: composition, templates, checks and files."""
