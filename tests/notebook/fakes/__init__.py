"""Stand-ins for what is around a widget: its worker, and the page that holds it."""
