"""Relations: canonical forms, clozes and questions, and whether a relation can have several objects
at once.
"""
