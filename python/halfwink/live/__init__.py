"""Techniques that run on this machine."""
