"""The paths of the API, a module per subject."""
