"""What people touch: files, pictures, reports, experiments, the demonstration and the command line."""
