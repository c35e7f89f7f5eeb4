"""The part of a model that a rank runs: its calls as modules, its parameters, its samples."""
