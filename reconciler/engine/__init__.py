"""The door to a host: one Protocol to look, one to act, a real and a simulated implementation of both."""
