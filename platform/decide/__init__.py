"""What is due: surveys of tables, decisions under a budget, and upkeep by them."""
