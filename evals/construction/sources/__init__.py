"""Sources of construction items and writers of benchmark files, by kind of benchmark."""
