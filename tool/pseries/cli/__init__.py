"""The command line: words, exit codes and everything that is printed."""
