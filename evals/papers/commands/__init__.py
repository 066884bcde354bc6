"""Commands of the papers: `emend papers`, `reproduce` and `sweep`."""
