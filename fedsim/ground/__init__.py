"""What every room stands on: errors that a user can cause, whole files, numbers with units."""
