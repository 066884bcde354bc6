"""What changes the model's knowledge: one class a method."""
