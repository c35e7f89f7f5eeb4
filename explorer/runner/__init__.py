"""Runs a plan for real: from a plan to processes that compute, and back to a measurement.

`script`, `segments`, `channels`, `lowering` and `checks` say on paper what every rank will do, and import
no torch; `program`, `weights` and `samples` make each rank's part of the model; `stages`, `runtime` and
`rank` run it on torch.distributed; `bundle`, `local`, `ray` and `targets` send it somewhere; `outcome` is
what comes back, `profile` what was measured of single operators and links.
"""
