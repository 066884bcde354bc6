"""Classification of provider errors into Emend's error classes, one for each remedy."""
