"""The roles of judges: their prompts, the fence around the texts they judge, and the parsing of their verdicts."""
