"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("raftlog")
except PackageNotFoundError:  # Run from a checkout that was never installed.
    VERSION = "0+unknown"
