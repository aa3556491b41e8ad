"""The commands of the command line, one idea per file."""
