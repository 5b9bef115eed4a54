"""Memory and history in the state directory."""
