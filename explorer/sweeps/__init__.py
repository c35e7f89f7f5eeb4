"""One question asked many times: with more devices, larger caps, other micro-batches, faster links."""
