"""Human evaluation: blind sheets of a run's answers for annotators, and the agreement of their labels."""
