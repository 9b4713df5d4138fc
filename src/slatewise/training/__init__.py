"""Fitting the posterior to a dataset."""
