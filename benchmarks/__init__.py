"""Measurements, side by side with peers and with the floor. Numbers, not verdicts."""
