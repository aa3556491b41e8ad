"""What lies beneath the apps: in process, or Flower's simulation on Ray."""
