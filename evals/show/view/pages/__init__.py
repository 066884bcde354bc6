"""Contents of the viewer's pages as data, without HTML."""
