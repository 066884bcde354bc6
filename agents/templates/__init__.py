"""Chat templates: options, dates and thoughts."""
