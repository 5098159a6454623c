"""The Model Context Protocol: answers agents about a warehouse, and changes nothing."""
