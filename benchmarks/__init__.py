"""Measurements of this library, of peers and of the floor. They print numbers and judge nothing."""
