"""What operations run on: engines, memory of a task, clocks, the one function that deletes."""
