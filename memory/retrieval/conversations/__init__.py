"""Retrieval strategies for conversations, such as windows of turns, dates and speakers."""
