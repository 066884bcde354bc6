"""Equivalence of free answers and gold answers by a small trained classifier, without a language
model.
"""
