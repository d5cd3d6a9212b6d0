"""Runs the project's test tiers and counts what passed and failed. See docs/testing.md."""
