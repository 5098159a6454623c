"""Measurements, side by side with a peer and with the floor. Numbers, not verdicts."""
