"""Mutants of what decides about motion, and the runs that have to kill them (docs/verification.md)."""
