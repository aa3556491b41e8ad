"""A Flower app: logistic regression with scikit-learn."""
