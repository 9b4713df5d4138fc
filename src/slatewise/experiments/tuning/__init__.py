"""Searching settings by Bayesian optimisation (Appendix A of the paper)."""
