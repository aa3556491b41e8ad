"""What experiments share: the frame, tables, figures, lengths of runs, models, the README's tables.

An experiment imports from here, from the files beside its ``run.py``, and what ``fedsim`` and
``compressors`` export; never from another experiment.
"""
