"""Lists of what there is: catalogues, settings, nodes of graphs."""
