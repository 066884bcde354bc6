"""What the papers analyse beyond their tables: each analysis is a function over the records of runs."""
