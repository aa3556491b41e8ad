"""The settings of a run, a grid of runs and a method: fields, cells, controllers."""
