"""The command line: main.py has the commands' common ground, each command is a file of its own."""
