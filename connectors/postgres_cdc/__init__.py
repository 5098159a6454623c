"""`postgres-cdc`: the rows of a table of PostgreSQL, then its changes by logical decoding."""
