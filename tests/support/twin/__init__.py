"""The slow twin: one obvious federation in numpy, by the words of docs, which fedsim must equal."""
