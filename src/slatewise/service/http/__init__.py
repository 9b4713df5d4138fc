"""The service over HTTP: what may be asked, by whom, how often, and what comes back."""
