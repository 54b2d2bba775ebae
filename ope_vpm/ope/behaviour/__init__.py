"""What the logging policy was, learned from the log."""
