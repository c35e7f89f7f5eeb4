"""What is known of an open page, and what all pages of a server share."""
