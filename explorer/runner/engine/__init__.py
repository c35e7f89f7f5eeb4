"""Running a script on torch.distributed, and writing down what happens."""
