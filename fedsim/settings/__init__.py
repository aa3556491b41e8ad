"""What a run, a grid of runs and a method are told to be: settings, cells, controllers."""
