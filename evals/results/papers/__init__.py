"""The four papers' result tables as data, what does not agree within them, and which run stands beside which row."""
