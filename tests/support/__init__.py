"""What tests share and no test itself: builders, doubles, a model, strategies, invariants."""
