"""The sequential slate model: posterior, user dynamics and likelihood; no files, no plots."""
