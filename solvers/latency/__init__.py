"""The latency of one sample as calls of accelerators and operators on CPUs (Tarnawski et al. 2020, section 6)."""
