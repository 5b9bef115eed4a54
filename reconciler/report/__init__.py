"""A plan as people and programs read it."""
