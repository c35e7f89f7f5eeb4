"""Chains of devices that run again only what memory asks for: cheap operators first, then the front of a device."""
