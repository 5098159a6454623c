"""What commands share that plan a change of a table and carry it out."""
