"""Pages as HTML and SVG: geometry, links, and the export as files."""
