"""YAML files: their lines, the values in them, and all that is wrong with them."""
