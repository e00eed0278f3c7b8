"""The package's version: that of the programs, too."""

__version__ = "0.1.0"
