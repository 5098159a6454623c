"""What upkeep did and was to do: actions, intents, costs and savings, and what they teach."""
