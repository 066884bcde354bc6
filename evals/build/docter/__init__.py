"""DocTER's documents and questions over facts in CounterFact's form."""
