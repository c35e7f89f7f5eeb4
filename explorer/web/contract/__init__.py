"""What the page and those who answer it agree on: ids, and the backend."""
