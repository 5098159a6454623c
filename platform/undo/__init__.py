"""Taking back what a run did."""
