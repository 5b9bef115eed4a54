"""(Desired, Snapshot, Memory, now) → Plan. Pure."""

from reconciler.planner.compose import Options, plan

__all__ = ["Options", "plan"]
