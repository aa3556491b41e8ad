"""The ground of every room: errors that a user can cause, files, units, threads."""
