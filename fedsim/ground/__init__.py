"""What every room stands on: errors that a user can cause, files, units, threads."""
