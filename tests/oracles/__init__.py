"""Real Paimon clients, each in an environment of its own, as the judges of what Lakewright writes."""
