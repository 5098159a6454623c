"""The measured programs; each answers requests in an environment of its own."""
