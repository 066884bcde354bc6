"""Commands of the papers: `emend reproduce` and `emend sweep`."""
