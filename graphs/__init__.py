"""LangGraph graphs that combine the agents, one per file."""
