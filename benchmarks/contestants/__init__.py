"""Programs that are measured: each answers requests, in an environment of its own."""
