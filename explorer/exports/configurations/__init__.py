"""What does a launcher's configuration come to here? Its files become plans, to be reviewed and compared."""
