"""Models on completion servers (vLLM, SGLang): generation, and log-probabilities of given
targets.
"""
