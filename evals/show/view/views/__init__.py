"""Views, the data of the viewer's pages: frozen, filled by `emend.evals.show.view.pages` and laid out by the templates.

Links are paths from the viewer's root without a leading slash, so that one scheme serves the server and the export.
"""
