"""Runs of jobs: comparisons, studies and sweeps, on this machine and on others."""
