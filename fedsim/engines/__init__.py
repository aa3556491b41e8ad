"""Engines that run the apps: in process, Ray's actors, Flower's simulation, or a deployment."""
