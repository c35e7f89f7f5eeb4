"""Piper's dynamic program (Tarnawski, Narayanan, Phanishayee, NeurIPS 2021) over layers and over problems."""
