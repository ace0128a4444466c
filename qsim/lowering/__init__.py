"""One module a system: from its model to the arrays its kernel takes, and from tallies to measures."""
