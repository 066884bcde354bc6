"""Models on servers of completions (vLLM, SGLang): generation, and log-probabilities of given targets."""
