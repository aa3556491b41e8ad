"""Published methods: sums of the parts in this package, under their papers' names."""
