"""One page of everything that the studies found, to read offline, on a phone or on paper."""
