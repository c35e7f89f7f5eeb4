"""The answer that people get, and how soon there is a first one."""
