"""CLI commands of the streams: `emend stream` and `emend mcp`."""
