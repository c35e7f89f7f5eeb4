"""A run against the model computed otherwise: part after part on its ranks, or in one piece on one of them."""
