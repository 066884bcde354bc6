"""Side effects of weight edits: perplexity of held-out texts and general ability, before and under the edits."""
