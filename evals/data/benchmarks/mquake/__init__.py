"""MQuAKE: multi-hop questions over edited facts."""
