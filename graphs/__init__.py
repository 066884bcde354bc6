"""How the agents work together: one LangGraph graph a file."""
