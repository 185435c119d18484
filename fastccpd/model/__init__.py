"""Nouns: what is fused, through which operators, and what comes out."""
