"""Everything for eyes: terminal, files, lists."""
