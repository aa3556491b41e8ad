"""Data sets from disk, and how samples are split over clients."""
