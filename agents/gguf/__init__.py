"""Local models from GGUF files: a catalogue, downloads of packages with such files, and
conversion.
"""
