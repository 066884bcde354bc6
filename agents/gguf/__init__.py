"""Local models made of GGUF files: a catalogue, the packages that ship the files, and their conversion."""
