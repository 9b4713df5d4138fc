"""A slate-aware network: its architecture, how it is fitted, and how sure it is."""
