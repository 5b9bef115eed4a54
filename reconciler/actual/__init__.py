"""What is there: hosts, cards, containers."""
