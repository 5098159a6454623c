"""What a table is before anything is opened: its definition, and the changes that its rows are."""
