"""Tests of `explorer.tracing.files`."""
