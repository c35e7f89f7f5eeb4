"""The door: the registry, `solve`, the automatic choice, the simplest planners and the oracle."""
