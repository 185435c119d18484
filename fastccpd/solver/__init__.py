"""Verbs: a trust-region solver that knows no tensors, and the one objective that does."""
