"""Actors that come between each other: every interleaving, races and kills of processes."""
