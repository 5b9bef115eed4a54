"""What one commit of a repository wants."""
