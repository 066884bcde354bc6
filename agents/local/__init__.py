"""Local causal language models: chat, generation, likelihoods and batching."""
