"""Issues the steps of a plan that are due."""
