"""A Flower app: federated averaging of a network with BatchNorm."""
