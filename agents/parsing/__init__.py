"""Parsing of model replies: messages, tool calls and reasoning text."""
