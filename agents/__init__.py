"""Models: providers and local models, and the roles (prompts and parsers) that language models
play.
"""
