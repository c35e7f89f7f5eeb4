"""Many people on one server at once: clients that speak the page's protocol, and browsers."""
