"""Compiled event loops: arrays in, tallies out."""
