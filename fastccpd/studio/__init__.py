"""What people touch: the command line and the demonstration behind it."""
