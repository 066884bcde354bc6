"""Values in texts, such as dates, numbers, quantities and names, in a comparable form."""
