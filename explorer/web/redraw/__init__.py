"""What changes on the page when its state does."""
