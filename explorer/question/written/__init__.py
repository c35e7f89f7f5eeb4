"""What people write in a flag, a field of the page or a file: amounts with their units, lists of devices, names."""
