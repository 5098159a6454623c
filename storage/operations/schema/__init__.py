"""Tables are created."""
