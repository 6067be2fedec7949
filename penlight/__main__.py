"""`python -m penlight`: the command line."""

from penlight.tools.main import main

if __name__ == "__main__":
    main()
