"""The notebook widget: its values, its module, and both in notebooks that a browser opens."""
