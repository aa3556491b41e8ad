"""Value coders that see all values of a tensor at once: curves through sorted values, sketches."""
