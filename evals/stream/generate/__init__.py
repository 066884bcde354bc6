"""Generated streams: the facts, the story that is told of them, and the questions about it."""
