"""Forms in which `mello` decomposes a question: as published, line by line, and by schema."""
