"""The processes that do jobs: how many, what each may use, whose turn it is, and what is left when one dies."""
