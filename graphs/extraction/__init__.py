"""Reading triplets out of text: the steps of the graph `extract`, and the tools that take them."""
