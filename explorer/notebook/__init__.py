"""Plans in a notebook: the widget, and how values show themselves. Loaded on first use."""
