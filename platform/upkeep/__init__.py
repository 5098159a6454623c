"""What keeps a table in shape: its health, what is due, and the doing of it."""
