"""The grammar of statements: text → frozen values, one module for each family of statements."""
