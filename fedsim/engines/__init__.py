"""What lies beneath the apps: in process, Flower's simulation on Ray, or a deployment."""
