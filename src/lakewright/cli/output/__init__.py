"""What commands print: text, tables and progress for people, JSON and CSV for programs."""
