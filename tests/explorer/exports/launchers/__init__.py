"""Files for launchers, read by those that launch from them."""
