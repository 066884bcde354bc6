"""Judge roles: prompts, fencing of the judged texts, and parsing of verdicts."""
