"""The two ends of the line between server and client, and what they share."""
