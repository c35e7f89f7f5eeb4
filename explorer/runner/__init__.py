"""Runs a plan for real: from a plan to processes that compute, and back to a measurement.

`scripts` derives what every rank will do; `model` makes a rank's part of the model and `engine` runs it
on torch.distributed; `targets` sends it somewhere; `bundles` holds what is asked and what comes back;
`measuring` times single operators and links. `rank` and `calibrate` are what torchrun starts; `training` is for a
custom script that torchrun starts.
"""
