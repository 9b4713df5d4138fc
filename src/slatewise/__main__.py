"""`python -m slatewise`."""

from slatewise.cli import main

if __name__ == "__main__":
    main()
