"""What keeps a service well: backups, repairs, and slates that leave the store after a time."""
