"""Methods of knowledge editing, one class each."""
