"""Real Paimon clients, each in an environment of its own, that judge what Lakewright writes."""
