"""What upkeep did and was to do: actions, intents, costs and savings, and what they teach.

New field of an action: `Action`, `Cost` or `Benefit`; the column follows by itself.
New reason to decline: a value of `WhyNot` in `intents.py`, given in `decide.py` or `budget.py`,
described in `docs/how-to/upkeep.md`.
New verb that predicts its duration: `_LIKE` in `foresee.py`, its first pace in `calibrate.py`.
"""
