"""`python -m muster`: the command line."""

from muster.cli.start import run

if __name__ == "__main__":
    run()
