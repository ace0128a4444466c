"""Analytic answers for queueing systems."""
