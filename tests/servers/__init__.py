"""Servers and processes that the tests talk to; nothing here is installed."""
