"""The nouns of the format: frozen values and total functions, standard library only."""
