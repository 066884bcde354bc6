"""Configuration of runs, measurements and sessions: fields, presets, YAML files."""
