"""Conversation benchmarks: dated messages, questions about them, and the messages that are
evidence.
"""
