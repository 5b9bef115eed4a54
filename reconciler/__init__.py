"""Declarative GitOps for GPU containers on plain Docker hosts."""

__version__ = "0.1.0"
