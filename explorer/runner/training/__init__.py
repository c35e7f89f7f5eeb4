"""Training that starts from a plan: one's own data, loss, optimizer and schedule, on the engine of a run.

`launch` begins one and `training` is what it gives; `models` and `batches` read what a person hands in, `refusals` and
`ranks` say no on every rank alike; `optimizing` clips and steps; `drawing` seeds dropout; `catalogue` knows which rank
has which tensor, `checkpoint` keeps them for another plan, in the files of `catalogue`.
"""
