"""What stands in, while a module is traced, for what a trace on a fake CPU cannot do or should not keep."""
