"""Laws need no warehouse of their own: each example makes one in memory or in a folder."""
