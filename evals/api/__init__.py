"""The Python API: what the command line does, with objects where it takes names."""
