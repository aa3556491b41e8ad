"""A Flower app: federated averaging on digits."""
