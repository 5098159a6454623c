"""Tables in one line each, the environment they work in, and what must hold for all of them."""
