"""Run the fuzz test by hand."""

from fuzz.runner import main

main()
