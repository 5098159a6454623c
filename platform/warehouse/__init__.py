"""The upkeep of a whole warehouse: surveys of its tables, decisions under a budget, the ledger."""
