"""Parts of one run, evaluated by processes that share nothing, and the run that they make together."""
