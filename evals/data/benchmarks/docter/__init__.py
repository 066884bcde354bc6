"""DocTER: document-based knowledge editing."""
