"""The files of a run folder: manifest, records, events and checkpoints."""
