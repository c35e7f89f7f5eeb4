"""How tensors are divided over a group of devices: what every call allows, what is cheapest, and what one member of the
group then runs."""
