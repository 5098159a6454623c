"""Random histories of tables: drawn, carried out by us and by Java, and checked."""
