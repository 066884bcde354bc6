"""Fact files: formats, rows and the cases made from them, and published files that are read in the
same way.
"""
